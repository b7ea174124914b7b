"""Which tests of an edited model.py led elsewhere each time."""

from __future__ import annotations

from typing import Any

import pytest

from fairhand.codegen.validate.reached import missed, noted

# A test in what builds a network -> whether what it asks may be another elsewhere.
ASKED = {
    "width > 8": False,
    "isinstance(width, nn.Module)": False,
    "nn.Linear is None": False,
    "os.environ.get('FAST')": True,
    "not torch.backends.mkldnn.is_available()": True,
    "os.name == 'nt'": True,
    "is_cuda()": True,
}


@pytest.mark.parametrize("test", ASKED)
def test_what_builds_a_network_may_ask_its_arguments_alone(test: str) -> None:
    text = f"""import os
import torch
from torch import nn
from torch.cuda import is_available as is_cuda

def load(width):
    if {test}:
        width = 2
    return width
"""
    built, space = set[Any](), dict[str, Any]()
    exec(compile(text, "model.py", "exec"), space)
    with noted("model.py", built):
        space["load"](4)
    assert missed(text.encode(), "", set(), built) == (8 if ASKED[test] else 0)
    assert missed(text.encode(), text, set(), built) == 0
