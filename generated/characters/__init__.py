"""Characters.

Session() stands in for onnxruntime.InferenceSession: the same names, NumPy in and out.
load() returns the network itself with its weights, an ordinary torch.nn.Module: Model.
"""

from .model import Characters as Model
from .model import load
from .session import Session

__all__ = ["Model", "Session", "load"]
