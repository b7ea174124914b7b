"""Which tests of an edited model.py led elsewhere each time."""

from __future__ import annotations

import sys
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


# The body of a function of x -> the line that nothing led to, 0 for none.
LED = {
    "x = x and 5\n x.bit_count and {} and x": 6,
    "if x > 9:\n  return 1\n return 2": 6,
    "if not x > 9:\n  return 1\n return 2": 7,
    "match x:\n  case 4:\n   pass\n  case _:\n   x = 3": 9,
    "x = [0 for _ in [x] if x > 9]": 5,
    "for _ in range(x > 9):\n  x = 3": 6,
    "try:\n  x = x + 1\n except KeyError:\n  x = 3": 8,
    "with suppress(KeyError):\n  x = {}[x]\n  x = 3": 7,
    "for _ in range(x):\n  x = x or x\n assert x == 4 and x > 3": 6,
    "try:\n  x = x and 5\n finally:\n  x = [y for y in [x] if y == 5]": 0,
    "if x != 4 or x > 9:\n  raise KeyError": 0,
    "if x == 4 or x > 9:\n  x = 3": 0,
}


@pytest.mark.skipif(sys.version_info < (3, 11), reason="lines alone are known")
@pytest.mark.parametrize("body", LED)
def test_whatever_decides_has_to_have_led_to_each_of_its_parts(body: str) -> None:
    text = f"""from contextlib import suppress


def forward(x):
 {body}
"""
    ran, space = set[Any](), dict[str, Any]()
    exec(compile(text, "model.py", "exec"), space)
    with noted("model.py", ran):
        space["forward"](4)
    assert missed(text.encode(), "", ran, set()) == LED[body]
