"""Python runs this first where `fairhand run` put its folder on PYTHONPATH.

Needs nothing of fairhand: the program may run in an environment without it.
"""

import importlib.machinery
import importlib.util
import os
import sys

if __name__ == "sitecustomize":  # and not where tools import all of fairhand
    import fairhand_hook  # type: ignore[import-not-found]  # which stands beside it

    fairhand_hook.install_on_import()

    # The sitecustomize that this one stands before, if the environment has one.
    _here = os.path.dirname(os.path.abspath(__file__))
    _path = [each for each in sys.path if os.path.abspath(each or ".") != _here]
    _spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _path)
    if _spec is not None and _spec.loader is not None:
        _spec.loader.exec_module(importlib.util.module_from_spec(_spec))
