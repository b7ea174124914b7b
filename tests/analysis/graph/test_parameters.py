"""Constants that train, and those that an exporter noted as buffers."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir
import pytest

from fairhand.analysis.graph.constants import is_wave
from fairhand.analysis.graph.parameters import (
    COMPUTED,
    TRAINS,
    is_parameter,
    is_saved,
)


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


def test_what_state_dict_has() -> None:
    def saved(name: str, **noted: str) -> bool:
        start = "pkg.torch.export.graph_signature.InputSpec."
        props = {start + key: value for key, value in noted.items()}
        return is_saved(ir.Value(name=name, metadata_props=props))

    assert saved("blocks.0.attn.index") and saved("inv", persistent="True")
    assert saved("_norm.weight") and saved("_scale") and saved("block.constant")
    assert not saved("_to_copy_1") and not saved("block._tensor_constant0")
    assert not saved("blocks.0.index_3") and not saved("index")
    assert not saved("inv", kind="BUFFER", persistent="False")
    computed = ir.Value(name="pad_2")
    computed.meta[COMPUTED] = True  # a result's name
    assert not is_saved(computed)
