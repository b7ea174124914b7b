"""Constants that train, and those that an exporter noted as buffers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from fairhand.analysis.graph.constants import is_wave
from fairhand.analysis.graph.parameters import TRAINS, is_parameter


def test_a_buffer_of_the_exporter_is_no_parameter() -> None:
    value = ir.Value(name="norm.weight", const_value=ir.tensor(np.ones(3, np.float32)))
    value.dtype = ir.DataType.FLOAT
    assert is_parameter(value)
    value.metadata_props["pkg.torch.export.graph_signature.InputSpec.kind"] = "BUFFER"
    assert not is_parameter(value)
    value.meta[TRAINS] = True  # by its uses, as a scale would be
    assert not is_parameter(value)


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (1, 0, 4), (0,)])
def test_an_empty_table_holds_no_waves(shape: tuple[int, ...]) -> None:
    assert not is_wave(ir.tensor(np.zeros(shape, np.float32)))
