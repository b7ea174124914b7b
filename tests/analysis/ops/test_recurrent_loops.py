"""The loops of recurrent layers: what a step computes, and what is computed once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from fairhand.analysis.ops.helpers.recurrent import run_gru, run_lstm, run_rnn

STEPS = 7


class Counted(TorchDispatchMode):
    """Counts the operators that run."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.counts[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("run", "gates", "products"), [(run_lstm, 4, 1), (run_gru, 3, 2), (run_rnn, 1, 1)]
)
def test_a_step_multiplies_its_state_alone(
    run: Callable[..., tuple[Tensor, ...]], gates: int, products: int
) -> None:
    """In both directions at once; what x adds is one product before the first step."""
    x, lengths = torch.randn(STEPS, 2, 3), torch.tensor([STEPS, 4])
    w, r = torch.randn(2, gates * 5, 3), torch.randn(2, gates * 5, 5)
    with Counted() as ran:
        run(x, w, r, lengths=lengths, reverse=(False, True))
    assert ran.counts["baddbmm"] == products * STEPS
    assert ran.counts["mm"] + ran.counts["bmm"] == 1


def test_directions_with_functions_of_their_own() -> None:
    x, w, r = torch.randn(STEPS, 2, 3), torch.randn(2, 5, 3), torch.randn(2, 5, 5)
    kinds = "relu", ("leakyrelu", 0.5)
    y, h = run_rnn(x, w, r, reverse=(False, True), activations=kinds)
    for d, back in enumerate((False, True)):
        one = w[d : d + 1], r[d : d + 1]
        alone = run_rnn(x, *one, reverse=(back,), activations=(kinds[d],))
        torch.testing.assert_close((y[:, d], h[d]), (alone[0][:, 0], alone[1][0]))
