"""A part of a buffer is as any tensor, but for what is joined to it or scattered."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fx.experimental.proxy_tensor import make_fx

from fairhand.codegen.generation.decoder import Cache, Decoder
from fairhand.codegen.generation.generate_files import Layout, generate_texts
from fairhand.templates.runtime.caches import caches, counted, grouped, placed


def test_what_is_joined_is_written_behind_and_nowhere_else() -> None:
    buffer = torch.arange(24.0).reshape(2, 6, 2)
    before, new = buffer.clone(), torch.full((2, 1, 2), -1.0)
    room = caches.Room.of(buffer, 1, 1, 3)
    found = torch.cat([room, new], dim=-2)
    assert torch.equal(found, torch.cat([before[:, 1:4], new], dim=1))
    assert type(found) is torch.Tensor
    assert found.data_ptr() == buffer[:, 1:].data_ptr()
    before[:, 4:5] = new
    assert torch.equal(buffer, before)


ONES = torch.ones(2, 3, 2)
INDEX = torch.zeros(2, 1, 2, dtype=torch.int64)


def test_all_else_is_as_of_any_tensor() -> None:
    for kind in (caches.Room, grouped.Room):
        buffer = torch.arange(24.0).reshape(2, 6, 2)
        plain, kept = buffer[:, 1:4].clone(), buffer.clone()
        room = kind.of(buffer, 1, 1, 3)
        for call in (
            lambda x: torch.cat([x, ONES], 0),
            lambda x: torch.cat([x, ONES, ONES], dim=1),
            lambda x: torch.cat([ONES, x], dim=1),
            lambda x: x * 0.5,
            lambda x: ONES * x,
            lambda x: 2 * x,
            lambda x: F.pad(x, (0, 1)),
            lambda x: x.scatter(1, INDEX, ONES),
            lambda x: x.transpose(1, 2) @ ONES,
            lambda x: x[:, :2].sum(),
        ):
            found = call(room)
            assert torch.equal(found, call(plain))
            assert type(found) is torch.Tensor
        assert torch.equal(buffer, kept)


def _positions(past: Tensor, new: Tensor, table: Tensor) -> tuple[Tensor, ...]:
    """What networks compute from the length of a cache [1, places, 2]."""
    count, length = new.shape[1], past.shape[1]
    size = length + count
    keys = torch.cat([past, new], dim=1)
    at = torch.arange(length, size)
    last = torch.full((1,), length) + count
    on = torch.ones(1, size, dtype=torch.bool).expand(1, -1).reshape(1, size)
    on = on[:, None, :size] & (torch.arange(size) <= at[:, None])
    later = torch.full((count, size), 2.0) * (torch.arange(size) - length).abs()
    masked = torch.where(on[0], later, -9.0).exp() * (new @ keys.mT)
    return masked @ keys, table[length:size], last, torch.arange(count) + (size - count)


def test_what_counts_places_is_one_graph_for_any_number_of_them() -> None:
    drawn = torch.Generator().manual_seed(0)
    new, table = torch.rand(1, 2, 2, generator=drawn), torch.rand(9, 3, generator=drawn)

    def seen(buffer: Tensor, number: Tensor) -> tuple[Tensor, ...]:
        used = counted.Places.of(int(length), number, 8)
        room = counted.Room.counted(buffer, 1, used)
        with counted.Counting():
            return _positions(room, new, table)

    length = 3
    traced = make_fx(seen)(torch.zeros(1, 8, 2), torch.tensor(3))
    for length in range(1, 7):
        buffer = torch.zeros(1, 8, 2)
        buffer[:, :length] = torch.rand(1, length, 2, generator=drawn)
        expected = _positions(buffer[:, :length], new, table)
        for call in (seen, traced):
            given = buffer.clone()
            found = call(given, torch.tensor(length))
            for ours, theirs in zip(found, expected, strict=True):
                torch.testing.assert_close(ours, theirs)
            assert torch.equal(given[:, length : length + 2], new)
            assert not given[:, length + 2 :].any()


def test_a_row_of_masked_places_is_written_in_place() -> None:
    buffer = torch.zeros(1, 1, 6, 2)
    buffer[:, :, :2] = 3
    room = grouped.Room.of(buffer, 2, 0, 6)
    masked = F.pad(room, (0, 0, 0, 0)) * (torch.arange(6) < 2)[:, None]
    place, new = torch.full((1, 1, 1, 2), 2), torch.ones(1, 1, 1, 2)
    found = masked.scatter(2, place, new)
    assert found.data_ptr() == buffer.data_ptr()
    assert buffer[0, 0, :, 0].tolist() == [3, 3, 1, 0, 0, 0]


def test_what_is_put_at_a_place_is_written_there() -> None:
    buffer = torch.zeros(1, 2, 6, 2)
    room = placed.Room.of(buffer, 2, 0, 4)
    place, new = torch.tensor([2]), torch.ones(1, 2, 1, 2)
    turned = room.permute(2, 0, 1, 3).index_put((place,), new.permute(2, 0, 1, 3))
    assert turned.permute(1, 2, 0, 3).data_ptr() == buffer.data_ptr()
    assert buffer[0, 1, :, 0].tolist() == [0, 0, 1, 0, 0, 0]
    assert not torch.cat([room, new], 2)[:, :, 4:].equal(buffer[:, :, 4:5])


def test_names_of_a_file_are_text() -> None:
    names = ["a{i}", 'q"0', "b\n1", "{0}", "past.0", "past.1"]
    shape = ("rows", 2, "places", 4)
    decoder = Decoder(
        *('i"ds', "l{x}", "m\\", "", ""),
        tuple(Cache(name, f"next {name}", shape) for name in names),
        (),
        ('g"',),
        *(320, 0, 0, 0, True),
    )
    text = generate_texts(decoder, Layout(64, 0), False, ("float32",))["caches.py"]
    space: dict[str, object] = {}
    tables = text.partition("class Room")[0]
    lines = [line for line in tables.splitlines() if "from ." not in line]
    exec("\n".join(lines), space)
    assert space["CACHES"] == {name: (f"next {name}", shape) for name in names}
    assert (space["IDS"], space["LOGITS"], space["MASK"]) == ('i"ds', "l{x}", "m\\")
    assert space["GIVEN"] == ('g"',)
