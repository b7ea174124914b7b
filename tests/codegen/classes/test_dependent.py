"""Which numbers of a constructor are told by others."""

from __future__ import annotations

import pytest

from fairhand.codegen.classes.constructor_arguments import ANY, parameters


def written(labels: str, *rows: list[object], derives: bool = True) -> list[str]:
    """For each column the text that stands in it, "" for what is alike everywhere."""
    names = labels.split()
    texts = [""] * len(names)
    for parameter in parameters([list(row) for row in rows], names, derives):
        for column, text in parameter.texts(parameter.wish).items():
            texts[column] = text
    return texts


MLP = "in_features out_features in_features out_features"


def test_widths_are_multiples_of_what_enters() -> None:
    rows = [64, 256, 256, 64], [128, 512, 512, 128]
    assert written(MLP, *rows) == [
        "in_features",
        "4 * in_features",
        "4 * in_features",
        "in_features",
    ]
    kept = ["in_features", "hidden", "hidden", "in_features"]
    assert written(MLP, *rows, derives=False) == kept
    # Not in all instances; and a factor that nobody multiplies by.
    assert written(MLP, rows[0], [128, 384, 384, 128]) == kept
    assert written(MLP, [64, 320, 320, 64], [128, 640, 640, 128]) == kept


def test_a_ratio_in_three_sizes_is_no_chance() -> None:
    labels = "in_channels out_channels in_channels out_channels"
    rows = [[24 + 8 * n, 16 * n, 16 * n, 64 * n] for n in (1, 2, 4)]
    assert written(labels, *rows) == ["in_channels", "width", "width", "4 * width"]
    assert written(labels, *rows[:2])[-1] == "out_channels"
    assert written(labels, *rows[:2], [56, 64, 64, 192])[-1] == "out_channels"
    halves = [[32, 16], [48, 24], [80, 40]]
    assert written("in_channels out_channels", *halves)[1] == "in_channels // 2"
    # What enters is told itself, whatever follows of it.
    assert written("in_channels out_channels", *(h[::-1] for h in halves)) == [
        "in_channels",
        "2 * in_channels",
    ]


def test_a_multiple_in_many_places_keeps_its_name() -> None:
    labels = "in_channels out_channels in_channels out_channels groups in_channels"
    rows = [16, 64, 64, 64, 64, 64], [32, 128, 128, 128, 128, 128]
    assert written(labels, *rows) == ["in_channels", *["width"] * 5]


@pytest.mark.parametrize(
    "labels, rows, text",
    [
        ("kernel_size padding", ([3, 1], [5, 2]), "kernel_size // 2"),
        ("kernel_size padding", ([3, 1], [5, 1], [5, 2]), "padding"),
        ("kernel_size stride", ([2, 2], [4, 4]), "kernel_size"),
        ("stride kernel_size", ([1, 1], [2, 2]), "kernel_size"),
        ("dilation padding", ([2, 2], [4, 4]), "dilation"),
        ("stride padding", ([1, 1], [2, 2]), "padding"),
        ("kernel_size padding", ([(3, 5), (1, 2)], [(5, 5), (2, 2)]), "padding"),
        # Small numbers may be equal by chance, those of stored tensors are not.
        ("heads size", ([2, 2], [4, 4]), "size"),
        ("heads dim", ([2, 2], [4, 4]), "heads"),
        ("heads size", ([2, 2], [4, 4], [8, 8]), "heads"),
        ("size1 dim", ([4, 16], [7, 49]), "size1 ** 2"),
        ("in_channels size", ([64, 64], [128, 128]), "in_channels"),
    ],
)
def test_what_one_number_tells_about_another(
    labels: str, rows: tuple[list[object], ...], text: str
) -> None:
    assert written(labels, *rows)[1] == text


def test_a_layer_that_some_lack_may_have_any_number() -> None:
    labels = "kernel_size padding"
    assert written(labels, [3, ANY], [5, 2], [7, 3])[1] == "kernel_size // 2"
    assert written(labels, [ANY, 1], [5, 2], [7, 3])[1] == "padding"


def test_flags_are_no_numbers() -> None:
    assert written("size residual", [1, True], [0, False])[1] == "residual"


def test_a_number_of_statements_that_is_a_layers_is_one() -> None:
    rows = [1, 1], [2, 2], [4, 4]
    assert written("dilation size1", *rows) == ["dilation", "dilation"]
    # In two sizes it may be chance.
    assert written("dilation size1", *rows[:2]) == ["dilation", "size1"]
