"""What exporters write around recurrent layers is the layer's own work."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.emitter_models import Emitted, Graph

Emit = Callable[..., Emitted]


def network(batch: int, time: int, layers: int, both: bool, turns: str) -> Graph:
    """LSTMs over [batch, time, 4], whose Y a Reshape brings to [time, batch, ...].

    `turns` says how the last one's becomes [batch, time, ...]; "directions" are put
    side by side first.
    """
    g, wide, count = Graph(series=[batch, time, 4]), 4, 2 if both else 1
    x = g("Transpose", "series", perm=[1, 0, 2])
    for i in range(layers):
        sizes = {"w": (24, wide), "r": (24, 6), "b": (48,)}
        weights = [g.weight(f"rnn.{k}{i}", count, *s) for k, s in sizes.items()]
        direction = "bidirectional" if both else "forward"
        x = g("LSTM", x, *weights, hidden_size=6, direction=direction)
        wide = 6 * count
        flat = [time, batch, wide]
        if i == layers - 1 and turns == "reshape":
            flat = [batch, time, wide]
        if turns == "directions":
            x = g("Transpose", x, perm=[0, 2, 1, 3])
        x = g("Reshape", x, g.ints(*flat))
    if turns in ("transpose", "directions"):
        x = g("Transpose", x, perm=[1, 0, 2])
    g.last = g("Relu", x)
    return g


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("turns", ["reshape", "transpose"])
@pytest.mark.parametrize("both", [False, True])
def test_reshapes_of_one_sequence(
    layers: int, turns: str, both: bool, emitted: Emit
) -> None:
    g = network(1, 5, layers, both, turns)
    found = emitted(g.model(y=g.last))
    options = ", num_layers=2" * (layers == 2) + ", batch_first=True"
    options += ", bidirectional=True" * both
    assert f"nn.LSTM(4, 6{options})" in found.text
    assert found.body() == ["return F.relu(self.rnn(series)[0])"]


@pytest.mark.parametrize(
    ("batch", "both", "turns", "first"),
    [
        (2, False, "transpose", True),  # one direction: the Reshape is a Squeeze
        (2, True, "transpose", False),  # it puts elements of other steps together
        (2, False, "reshape", False),
        (1, False, "", False),
    ],
)
def test_reshapes_of_several_sequences(
    batch: int, both: bool, turns: str, first: bool, emitted: Emit
) -> None:
    """Whatever is taken in, the results are ONNX Runtime's: `emitted` verifies."""
    g = network(batch, 5, 1, both, turns)
    found = emitted(g.model(y=g.last))
    assert ("batch_first=True" in found.text) == first


@pytest.mark.parametrize("layers", [1, 3])
def test_directions_of_several_sequences(layers: int, emitted: Emit) -> None:
    """By then one Transpose puts them side by side and the batch first."""
    g = network(2, 5, layers, True, "directions")
    found = emitted(g.model(y=g.last))
    options = f", num_layers={layers}" * (layers > 1) + ", batch_first=True"
    assert f"nn.LSTM(4, 6{options}, bidirectional=True)" in found.text
    assert found.body() == ["return F.relu(self.rnn(series)[0])"]


def test_one_step_of_one_sequence(emitted: Emit) -> None:
    """Neither axis can be told from the other; both ways are right."""
    g = network(1, 1, 2, False, "reshape")
    assert "nn.LSTM(4, 6, num_layers=2" in emitted(g.model(y=g.last)).text


def test_the_state_of_the_last_layer_alone(emitted: Emit) -> None:
    """A module of two layers would give the states of both."""
    g = network(1, 5, 2, False, "transpose")
    *_, last = (node for node in g.nodes if node.op_type == "LSTM")
    last.output.append("state")
    found = emitted(g.model(y=g.last, h="state"))
    assert found.text.count("nn.LSTM(") == 2
