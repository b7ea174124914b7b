"""Constants that the file has no name for are called by what they are for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.emitted import imported
from support.traced import Traced

import fairhand

CASES = {
    "position_embedding": ("Add", (1, 6, 8)),
    "bias": ("Add", (8,)),
    "offset": ("Add", (6, 8)),
    "scale": ("Mul", (8,)),
    "divisor": ("Div", (8,)),
}


@pytest.mark.parametrize("role", CASES)
def test_constants_are_called_by_their_use(role: str, tmp_path: Path) -> None:
    op, shape = CASES[role]
    g = Traced(x=["batch", 6, 8])
    y = g.relu(g(op, g.relu("x"), g.weight("val_7", *shape)))
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    names = [name for name, _ in imported(tmp_path / "net").load().named_buffers()]
    assert names == [role]


def test_what_is_added_to_scores_is_their_bias(tmp_path: Path) -> None:
    g = Traced(x=["batch", 4, 8])
    heads = [g.split_heads(g.fc("x", name, 8, 8), 2, 4) for name in "qkv"]
    bias = g.weight("onnx::Add_5", value=np.eye(4, dtype=np.float32))
    y = g.join_heads(g.attend(*heads, 0.5, bias), 8)
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    names = [name for name, _ in imported(tmp_path / "net").load().named_buffers()]
    assert names == ["attention_bias"]


def test_what_is_added_to_indices_is_an_offset(tmp_path: Path) -> None:
    g = Traced(x=["batch", 6, 8], i=("int64", ["batch", 3]))
    places = g("Add", "i", g.weight("val_7", value=np.array([0, 2, 4])))
    y = g("GatherElements", "x", g("Unsqueeze", places, g.ints(2)), axis=1)
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    names = [name for name, _ in imported(tmp_path / "net").load().named_buffers()]
    assert names == ["offset"]


def test_truth_without_a_name_is_a_mask(tmp_path: Path) -> None:
    g = Traced(x=["batch", 6])
    stored = g.weight("val_7", value=np.tri(6, 6, dtype=np.bool_)[:1])
    y = g(
        "Where", g("And", g("Greater", "x", g.number(0.0)), stored), "x", g.number(1.0)
    )
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    names = [name for name, _ in imported(tmp_path / "net").load().named_buffers()]
    assert names == ["mask"]


def test_indices_of_an_embedding_are_its_ids(tmp_path: Path) -> None:
    """Moved about before they come to it, as BERT's token types are."""
    g = Traced(i=("int64", ["batch", 1]))
    types = g("Expand", g.weight("val_7", value=np.array([[0, 1, 1]])), g("Shape", "i"))
    rows = g.weight("embeddings.token_type_embeddings.weight", 2, 8)
    y = g.relu(g("Gather", rows, types))
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    names = [name for name, _ in imported(tmp_path / "net").load().named_buffers()]
    assert names == ["token_type_ids"]


def test_a_number_is_no_word_for_ids(tmp_path: Path) -> None:
    """A file may call its tables embedding_2_1."""
    g = Traced(i=("int64", ["batch", 3]))
    table = g.weight("embedding_2_1.weight", 12, 8)
    shifted = g("Abs", g("Add", "i", "i"))
    mask = g("Unsqueeze", g("Cast", shifted, to=1), g.ints(-1))
    y = g("Mul", g.relu(g("Gather", table, shifted)), mask)
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    text = (tmp_path / "net" / "model.py").read_text(encoding="utf-8")
    assert "_ids" not in text


def test_rows_are_picked_out_of_a_table(tmp_path: Path) -> None:
    g = Traced(i=("int64", ["batch", 3]))
    y = g.relu(g("Gather", g.weight("val_7", 5, 4, 8), "i"))
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    names = [name for name, _ in imported(tmp_path / "net").load().named_parameters()]
    names += [name for name, _ in imported(tmp_path / "net").load().named_buffers()]
    assert names == ["table"]


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("register_tokens", "self.register_tokens = nn.Parameter("),
        ("net.cells.bias", "self.bias = nn.Parameter("),
        ("net.class", "self.class_ = nn.Parameter("),
        ("net.weight", "self.position_embedding = nn.Parameter("),
        ("net.0", "self.position_embedding = nn.Parameter("),
    ],
)
def test_a_parameter_in_another_shape_is_called_as_it_is(
    name: str, line: str, tmp_path: Path
) -> None:
    """It was called by its use, and by its name when the package was exported."""
    g = Traced(x=["batch", 6, 8])
    rows = g("Unsqueeze", g.weight(name, 6, 8), g.ints(0))
    y = g.relu(g("Add", g.relu("x"), rows))
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False)
    assert line in (tmp_path / "net" / "model.py").read_text()


@pytest.mark.parametrize(("producer", "trains"), [("pytorch", True), ("tool", False)])
def test_a_number_that_the_network_itself_holds(
    producer: str, trains: bool, tmp_path: Path
) -> None:
    """TorchScript names no other constant by a word; other tools' are settings."""
    g = Traced(x=["batch", 8])
    y = g("Add", "x", g("Mul", g.weight("gamma", 1), g.fc("x", "fc", 8, 8)))
    model = g.model(y=y)
    model.producer_name = producer
    for node in model.graph.node:
        del node.metadata_props[:]  # which the newer exporter writes
    fairhand.compile(model, tmp_path / "net", verify=False)
    text = (tmp_path / "net" / "model.py").read_text()
    assert ("self.gamma = nn.Parameter(" in text) == trains


@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("add_115", "scale"),
        ("/norm/Add_output_0", "scale"),
        ("onnx::Mul_23", "scale"),
        ("norm.weight", "weight"),
    ],
)
def test_what_was_added_up_for_a_norm_is_not_its_weight(
    name: str, key: str, level: int, tmp_path: Path
) -> None:
    """The original's state has weight, where an exporter folded 1 + weight."""
    g = Traced(x=["batch", 6, 8])
    square = g("Mul", "x", "x")
    mean = g("ReduceMean", square, g.ints(-1), keepdims=1)
    root = g("Sqrt", g("Add", mean, g.number(1e-6)))
    y = g("Mul", g("Div", "x", root), g.weight(name, 8))
    fairhand.compile(g.model(y=y), tmp_path / "net", verify=False, level=level)
    named = imported(tmp_path / "net").load().named_parameters()
    assert [name.rpartition(".")[2] for name, _ in named] == [key]
