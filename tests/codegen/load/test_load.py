"""What loads, loads without copying; a stage that is written down runs."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from onnx import TensorProto, helper, numpy_helper
from support.handmade import BIG, RNG, external, floats, model, node, save, weight
from support.stages import save_stage

import fairhand
from fairhand.codegen.load.partial_parse import SMALLEST_CUT, skim
from fairhand.codegen.load.read_model import load


def test_what_is_known_about_a_file(tmp_path: Path) -> None:
    path = save(model(), tmp_path, "two words.onnx")
    loaded = load(str(path))
    assert loaded.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert (loaded.name, loaded.opset, loaded.node_count) == ("two words", 18, 1)
    assert (loaded.folder, loaded.path) == (tmp_path.resolve(), path.resolve())
    assert np.array_equal(weight(loaded.model), BIG)


def test_weights_are_views_of_the_file(tmp_path: Path) -> None:
    array = weight(load(save(model(), tmp_path)).model)
    assert not array.flags.owndata and not array.flags.writeable
    assert np.shares_memory(array, array)


@pytest.mark.parametrize("field", ["raw_data", "float_data", "double_data"])
@pytest.mark.parametrize("size", [1, SMALLEST_CUT // 4 - 1, SMALLEST_CUT * 4])
def test_each_field_of_content(tmp_path: Path, field: str, size: int) -> None:
    dtype = np.float64 if field == "double_data" else np.float32
    array = RNG.standard_normal(size).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(array.dtype)
    raw = field == "raw_data"
    data = array.tobytes() if raw else array
    made = model(node("Cast", "w", "y", to=1))
    made.graph.initializer[0].CopyFrom(helper.make_tensor("w", kind, [size], data, raw))
    assert np.array_equal(weight(load(save(made, tmp_path)).model), array)


@pytest.mark.parametrize("kind", sorted(set(ir.DataType) - {ir.DataType.UNDEFINED}))
def test_each_element_type(tmp_path: Path, kind: ir.DataType) -> None:
    if kind == ir.DataType.STRING:
        tensor = helper.make_tensor("w", TensorProto.STRING, [2], ["a", "b"])
        expected = np.array([b"a", b"b"])
    else:
        expected = RNG.integers(0, 2, (96, 96)).astype(kind.numpy())
        tensor = ir.to_proto(ir.Tensor(expected, kind, name="w"))
    made = model(node("Shape", "w", "y"), opset=26, ir_version=14)
    made.graph.initializer[0].CopyFrom(tensor)
    found = weight(load(save(made, tmp_path)).model)
    assert found.dtype == expected.dtype and found.shape == expected.shape
    assert found.tobytes() == expected.tobytes()


def test_skimming_cuts_large_payloads_only() -> None:
    small = np.ones(8, np.float32)
    made = model(node("Add", "w v", "y"), weights={"w": BIG, "v": small})
    made.graph.node[0].attribute.append(
        helper.make_attribute("kept", numpy_helper.from_array(BIG))
    )
    result = skim(memoryview(made.SerializeToString()))
    assert [bytes(cut) for cut in result.cuts] == [BIG.tobytes()] * 2
    assert len(result.skeleton) < 600
    skeleton = onnx.ModelProto.FromString(result.skeleton)
    assert numpy_helper.to_array(skeleton.graph.initializer[1]).tolist() == [1.0] * 8


def test_external_data(tmp_path: Path) -> None:
    path = external(tmp_path)
    loaded = load(path)
    assert np.array_equal(weight(loaded.model), BIG)
    both = path.read_bytes() + (tmp_path / "weights.bin").read_bytes()
    assert loaded.sha256 == hashlib.sha256(both).hexdigest()


@pytest.mark.parametrize("location", ["a/../weights.bin", "../{}/weights.bin"])
def test_external_data_by_a_path_that_comes_back(tmp_path: Path, location: str) -> None:
    (tmp_path / "a").mkdir()
    path = external(tmp_path, location=location.format(tmp_path.name))
    assert np.array_equal(weight(load(path).model), BIG)


@pytest.mark.parametrize("missing", ["length", "offset"])
def test_external_data_has_defaults(tmp_path: Path, missing: str) -> None:
    path = external(tmp_path, **{missing: None})
    array = weight(load(path).model)
    whole = (tmp_path / "weights.bin").read_bytes()
    start = 0 if missing == "offset" else 4
    assert array.tobytes() == whole[start : start + BIG.nbytes]


def test_a_model_in_a_cache_of_links(tmp_path: Path) -> None:
    pool, snapshot = tmp_path / "pool", tmp_path / "snapshot"
    pool.mkdir()
    snapshot.mkdir()
    external(pool).rename(pool / "a1")
    (pool / "weights.bin").rename(pool / "b2")
    (snapshot / "model.onnx").symlink_to("../pool/a1")
    (snapshot / "weights.bin").symlink_to("../pool/b2")
    assert np.array_equal(weight(load(snapshot / "model.onnx").model), BIG)


TEXT = """<ir_version: 9, opset_import: ["" : 18]>
agraph (float[N, 4] x) => (float[N, 4] y)
<float[4] w = {1, 2, 3, 4}>
{ y = Add(x, w) }"""


def test_textual_syntax(tmp_path: Path) -> None:
    loaded = load(save(TEXT.encode(), tmp_path, "adder.onnxtxt"))
    assert weight(loaded.model).tolist() == [1, 2, 3, 4]
    assert loaded.sha256 == hashlib.sha256(TEXT.encode()).hexdigest()
    assert loaded.name == "adder"


def test_a_size_whose_name_is_empty_has_none() -> None:
    made = onnx.parser.parse_model(TEXT)
    for value in (*made.graph.input, *made.graph.output):
        value.type.tensor_type.shape.dim[0].dim_param = ""
    (x,) = load(made).model.graph.inputs
    assert x.shape is not None and x.shape[0] == ir.SymbolicDim(None)


@pytest.mark.parametrize("kind", ["proto", "ir"])
def test_a_model_in_memory(kind: str) -> None:
    made = model()
    given = made if kind == "proto" else ir.from_proto(made)
    first, second = load(given), load(given)
    assert first.sha256 == second.sha256 and first.path is None
    assert first.name == "g" and np.array_equal(weight(first.model), BIG)
    first.model.graph.initializers["w"].name = "renamed"
    assert np.array_equal(weight(second.model), BIG)
    assert given == made if kind == "proto" else "w" in given.graph.initializers


def test_an_ir_model_with_external_data(tmp_path: Path) -> None:
    loaded = load(ir.load(external(tmp_path)))
    assert np.array_equal(weight(loaded.model), BIG)


def test_sparse_initializers_become_dense(tmp_path: Path) -> None:
    made = model(node("Add", "w s", "y"))
    values = helper.make_tensor("s", TensorProto.FLOAT, [2], [5.0, 7.0])
    flat = helper.make_tensor("i", TensorProto.INT64, [2], [3, 8])
    pairs = helper.make_tensor("i", TensorProto.INT64, [2, 2], [0, 3, 1, 2])
    for indices in (flat, pairs):
        sparse = helper.make_sparse_tensor(values, indices, [2, 6])
        del made.graph.sparse_initializer[:]
        made.graph.sparse_initializer.append(sparse)
        found = weight(load(save(made, tmp_path)).model, "s")
        assert found.shape == (2, 6) and found[0, 3] == 5 and found[1, 2] == 7


def test_custom_domains_and_unordered_nodes_pass(tmp_path: Path) -> None:
    late = node("Mystery", "h", "y", power=3)
    late.domain = "com.example"
    made = model(late, node("MatMul", "x w", "h"))
    made.opset_import.append(helper.make_opsetid("com.example", 1))
    assert load(save(made, tmp_path)).node_count == 2


def test_minus_one_means_any_size(tmp_path: Path) -> None:
    loaded = load(save(model(inputs=(floats("x", -1, 64),)), tmp_path))
    assert loaded.model.graph.inputs[0].shape == ir.Shape([None, 64])


MEMORY = """
import sys
from pathlib import Path
from fairhand.codegen.load.read_model import load
def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(l.split()[1]) for l in lines if l.startswith("RssAnon")) // 1024
before = anonymous()
loaded = load(sys.argv[1])
total = sum(v.const_value.numpy()[-1] for v in loaded.model.graph.initializers.values())
print(anonymous() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
@pytest.mark.parametrize("kind", ["inside", "beside"])
def test_weights_take_no_memory(tmp_path: Path, kind: str) -> None:
    array = np.ones((16 << 20,), np.float32)  # 64 MB
    made = model(node("Add", "w w", "y"), weights={"w": array})
    path = tmp_path / "model.onnx"
    onnx.save(made, path, save_as_external_data=kind == "beside")
    command = [sys.executable, "-c", MEMORY, str(path)]
    grown = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert int(grown) < 16


# Stages


@pytest.mark.parametrize("size", [64, 3000])
def test_a_stage_runs(tmp_path: Path, size: int) -> None:
    array = RNG.standard_normal((64, size)).astype(np.float32)
    small = np.zeros(size, np.float32)
    nodes = node("MatMul", "x w", "h"), node("Add", "h b", "y")
    made = model(*nodes, weights={"w": array, "b": small})
    loaded = load(save(made, tmp_path)).model
    view = np.broadcast_to(np.float32(0.5), (size,))
    loaded.graph.initializers["b"].const_value = ir.Tensor(view, name="b")
    stage = tmp_path / "stage.onnx"
    save_stage(loaded, stage)
    x = RNG.standard_normal((2, 64)).astype(np.float32)
    (found,) = ort.InferenceSession(stage).run(None, {"x": x})
    assert np.allclose(found, x @ array + 0.5, atol=1e-4)
    assert np.array_equal(weight(load(stage).model), array)
    assert loaded.graph.initializers["b"].const_value.raw is view


def test_a_large_stage_keeps_its_weights_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("support.stages._LARGEST_INLINE", 1024)
    loaded = load(save(model(), tmp_path)).model
    stage = tmp_path / "stage.onnx"
    save_stage(loaded, stage)
    assert (tmp_path / "stage.onnx.data").stat().st_size == BIG.nbytes
    assert np.array_equal(weight(load(stage).model), BIG)
    x = np.ones((2, 64), np.float32)
    assert np.allclose(ort.InferenceSession(stage).run(None, {"x": x})[0], x @ BIG)


def functions(domain: str, name: str, opset: int = 18) -> onnx.ModelProto:
    """x -> y by a function of this name that negates, which nothing else does."""
    made = onnx.parser.parse_model(f"""<ir_version: 8, opset_import: ["": {opset}]>
        g (float[3] x) => (float[3] y) {{ y = Neg(x) }}""")
    body = [helper.make_node("Neg", ["x"], ["y"])]
    imports = [helper.make_opsetid("", opset)]
    made.functions.append(
        helper.make_function(domain, name, ["x"], ["y"], body, imports)
    )
    made.graph.node[0].domain, made.graph.node[0].op_type = domain, name
    if domain:
        made.opset_import.append(helper.make_opsetid(domain, 1))
    return made


NAMES = [
    ("com.microsoft", "Gelu"),
    ("com.microsoft", "QuickGelu"),
    ("com.microsoft", "NoSuchOperator"),
    ("ai.onnx.ml", "Normalizer"),
    ("", "Relu"),
    ("mine", "Relu"),
]


@pytest.mark.parametrize(("domain", "name"), NAMES)
def test_a_function_of_an_operators_name_is_the_operator(
    domain: str, name: str
) -> None:
    """As ONNX Runtime takes it: the function counts where there is no operator."""
    made = functions(domain, name)
    x = np.array([-1, 2, 3], np.float32)
    session = ort.InferenceSession(made.SerializeToString())
    negates = np.array_equal(session.run(None, {"x": x})[0], -x)
    assert bool(load(made).model.functions) is negates


ONE = helper.make_opsetid("", 11), helper.make_opsetid("", 18)
OTHER = helper.make_opsetid("ai.onnx", 11), helper.make_opsetid("ai.onnx", 18)


@pytest.mark.parametrize("first", [ONE[0], OTHER[0], ONE[1], OTHER[1]], ids=str)
@pytest.mark.parametrize("last", [ONE[0], OTHER[0], ONE[1], OTHER[1]], ids=str)
def test_of_two_imports_of_a_domain_the_last_one_counts(
    first: onnx.OperatorSetIdProto, last: onnx.OperatorSetIdProto
) -> None:
    made = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 18]>
        g (float[1, 2, 2] x) => (float[1, 2, 2] y) { y = Softmax(x) }""")
    del made.opset_import[:]
    made.opset_import.extend([first, last])
    session = ort.InferenceSession(made.SerializeToString())
    (got,) = session.run(None, {"x": np.zeros((1, 2, 2), np.float32)})
    assert got[0, 0, 0] == (0.25 if last.version == 11 else 0.5)
    loaded = load(made)
    assert loaded.opset == loaded.model.opset_imports[""] == last.version


def test_a_model_object_without_an_opset_of_onnx_can_be_run(tmp_path: Path) -> None:
    """As of a converter of trees: the one that it is given, ONNX Runtime has."""
    text = "g (float[n, 2] x) => (float[n, 2] y) { y = ai.onnx.ml.Binarizer(x) }"
    head = '<ir_version: 8, opset_import: ["ai.onnx.ml": 1]>'
    fairhand.compile(onnx.parser.parse_model(head + text), tmp_path / "net")
