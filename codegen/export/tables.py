"""Operators of ai.onnx.ml whose tables are attributes: a module has them as tensors, of
which tracing knows no numbers. They are traced with these as inputs first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir

from ...analysis.errors import FairhandError

TREES, CODES, MAP = "TreeTables", "CodeTable", "ZipMap"
_OWN, _ML, _VERSION = "fairhand.tables", "ai.onnx.ml", 3
_constant = ir.convenience.get_const_tensor
_KINDS = {ir.DataType.INT64: "int64", ir.DataType.FLOAT: "float"}


# Results that are no tensors, by what OUTPUTS calls them.
MAPS = {
    f"seq(map({key.name.lower()},tensor(float)))": onnx.helper.make_sequence_type_proto(
        onnx.helper.make_map_type_proto(
            key, onnx.helper.make_tensor_type_proto(ir.DataType.FLOAT, None)
        )
    )
    for key in (ir.DataType.INT64, ir.DataType.STRING)
}


def of_tables(kind: str) -> str:
    """What an operator is traced as, in which its tables are inputs."""
    return f"{_OWN}::{kind}"


def as_attributes(graph: ir.Graph) -> None:
    """Write operators that were traced with their tables as those of ai.onnx.ml.
    Raises FairhandError where a table depends on what the network takes."""
    for node in [n for n in graph.all_nodes() if n.domain == _OWN]:
        graph.opset_imports.pop(_OWN, None)
        graph.opset_imports[_ML] = _VERSION
        if node.op_type == MAP:
            node.domain, node.outputs[0].type, node.outputs[0].shape = _ML, None, None
            continue
        given = (value for value in node.inputs[1:] if value is not None)
        tables = [*map(_constant, given)]
        if None in tables:
            raise FairhandError("a table of trees or codes is computed by the network")
        arrays = [tensor.numpy() for tensor in tables if tensor is not None]
        if node.op_type == TREES:
            said = _of_trees(arrays, node.attributes.get_string("reduce", ""))
            said["n_targets"] = node.attributes.get_int("n_targets", 1)
            _replace(node, node, "TreeEnsembleRegressor", said)
        else:
            _look_up(node, *arrays)


def _replace(node: ir.Node, by: ir.Node, kind: str, said: Mapping[str, Any]) -> None:
    """An operator on the data of one in the place of another."""
    new = ir.node(kind, by.inputs[:1], said, domain=_ML, name=node.name)
    new.metadata_props.update(node.metadata_props)
    old, made = node.outputs[0], new.outputs[0]
    made.name, made.type, made.shape = old.name, old.type, old.shape
    graph = node.graph
    assert graph is not None
    graph.insert_before(node, new)
    old.replace_all_uses_with(made, replace_graph_outputs=True)
    graph.remove(node, safe=True)


def _look_up(node: ir.Node, keys: Any) -> None:
    """LabelEncoder, of codes, or of what these are looked up in right away."""
    for reader in node.outputs[0].consumers():
        table = reader.inputs[0]
        row = None if table is None else _constant(table)
        axis = reader.attributes.get_int("axis", 0)
        if reader.op_type != "Gather" or axis or row is None or len(row.shape) != 1:
            continue
        if row.size == len(keys) + 1 and row.dtype in _KINDS:
            _replace(reader, node, "LabelEncoder", _codes(keys, row.numpy()))
    if node.outputs[0].uses() or node.outputs[0].is_graph_output():
        _replace(node, node, "LabelEncoder", _codes(keys, np.arange(len(keys) + 1)))
    else:
        assert node.graph is not None
        node.graph.remove(node, safe=True)


def _codes(keys: Any, values: Any) -> dict[str, Any]:
    kinds = [_KINDS[ir.DataType.from_numpy(row.dtype)] for row in (keys, values)]
    return {
        f"keys_{kinds[0]}s": keys.tolist(),
        f"values_{kinds[1]}s": values[:-1].tolist(),
        f"default_{kinds[1]}": values[-1].item(),
    }


def _of_trees(tables: list[Any], reduce: str) -> dict[str, Any]:
    """Attributes of TreeEnsembleRegressor: the nodes tree by tree, each root first."""
    root, feature, child, threshold, value, target, *mixed = tables
    equal, nan_left = mixed or (np.zeros(len(feature), bool),) * 2
    leaf = np.equal(*child.T)
    order: list[int] = []
    tree: list[int] = []
    for number, first in enumerate(root.tolist()):
        reached, level = {first}, {first}
        while level := {*child[[i for i in level if not leaf[i]]].flat} - reached:
            reached |= level
        order += sorted(reached, key=lambda i: (i != first, i))
        tree += [number] * len(reached)
    place = np.zeros(len(leaf), np.int64)
    place[order] = np.arange(len(order))
    modes = np.where(leaf, "LEAF", np.where(equal, "BRANCH_EQ", "BRANCH_LEQ"))[order]
    false, true = np.where(leaf[:, None], 0, place[child])[order].T
    # A target that its tree has before fills the row up.
    first_of = [
        [t not in row[:k] for k, t in enumerate(row)] for row in target.tolist()
    ]
    votes = [
        (number, place[i], target[number, k], value[i, k])
        for number, i in zip(tree, order, strict=True)
        for k in np.flatnonzero(first_of[number])
        if leaf[i]
    ]
    trees, nodes, ids, weights = (
        np.array(each).tolist() for each in zip(*votes, strict=True)
    )
    lists: dict[str, Any] = {
        "treeids": tree,
        "nodeids": [*range(len(order))],
        "modes": [*map(str, modes)],
    }
    lists |= {"featureids": feature[order], "values": threshold[order]}
    lists |= {"truenodeids": true, "falsenodeids": false}
    if nan_left.any():
        lists["missing_value_tracks_true"] = nan_left[order].astype(np.int64)
    return {
        **{f"nodes_{name}": np.asarray(row).tolist() for name, row in lists.items()},
        "target_treeids": trees,
        "target_nodeids": nodes,
        "target_ids": ids,
        "target_weights": weights,
        "aggregate_function": reduce,
    }
