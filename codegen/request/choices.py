"""Words that options take, apart from what they mean: `--help` loads no more."""

METHODS = ("dnnfusion",)  # of fusing
TARGETS = ("torch", "triton")  # what bodies call: PyTorch, or kernels of their own
DEVICES = ("cpu", "h100")  # of analysis/cost/device.py
AUTO = "auto"  # in place of an engine: Session measures which is the fastest
# Of templates/runtime/engines.
ENGINES = ("eager", "packed", "onednn", "openvino", "aot", "compile")
AUTOTUNE = "let Triton's autotuner choose how kernels are launched, when they first run"
PRECISIONS = ("float32", "bf16", "fp16", "int8")  # to compute in
