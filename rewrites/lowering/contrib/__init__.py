"""Com.microsoft in ONNX's own operators."""

from ....analysis.ops import contrib  # noqa: F401
from . import (  # noqa: F401
    attention,
    decoder_blocks,
    one_to_one,
    quantized,
    residual_streams,
    tensors,
)
