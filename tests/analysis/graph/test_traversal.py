"""What nodes read, through bodies of bodies, and what is reached from where."""

from __future__ import annotations

import onnx
import onnx_ir as ir

from fairhand.analysis.graph.traversal import reached, reads_of

NESTED = """<ir_version: 10, opset_import: ["" : 22]>
g (bool c, float[2] x, float[2] y, float[2] z, float[2] w) => (float[2] out) {
  out = If (c) <
    then_branch = a () => (float[2] kept) {
      one = Add (x, x)
      kept = If (c) <
        then_branch = b () => (float[2] both) { both = Add (one, y) },
        else_branch = d () => (z) {}
      >
    },
    else_branch = e () => (float[2] other) { other = Neg (x) }
  >
}"""


def test_a_node_reads_what_its_bodies_take_from_outside() -> None:
    model = ir.from_proto(onnx.parser.parse_model(NESTED))
    (node,) = model.graph
    assert [value.name for value in reads_of(node)] == ["c", "x", "y", "z"]


def test_what_leads_to_itself_is_reached_once() -> None:
    ways = {1: (2, 3), 2: (1, 4), 3: (), 4: (2,), 5: (1,)}
    assert sorted(reached([1], ways.__getitem__)) == [1, 2, 3, 4]
