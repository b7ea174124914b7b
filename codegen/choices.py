"""Words that options take, apart from what they mean: `--help` loads no more."""

METHODS = ("none", "tvm", "dnnfusion")  # of fusing
DEVICES = ("cpu", "h100")  # of analysis/device.py
ENGINES = ("eager", "onednn", "compile")  # of templates/engines.py.jinja
