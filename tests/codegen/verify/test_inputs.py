"""Random inputs suit the graph: ONNX Runtime runs every model here on all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnx_ir as ir
import onnxruntime as ort
import pytest

from fairhand.analysis.errors import FairhandError, LoadError
from fairhand.codegen.verify.input_sizes import dynamic_sizes
from fairhand.codegen.verify.inputs import input_ranges, make_inputs, read_given


def parse(text: str, opset: int = 18, more: str = "", domains: str = "") -> ir.Model:
    contrib = f'"com.microsoft" : 1, "local" : 1{domains}'
    header = f'<ir_version: 9, opset_import: ["" : {opset}, {contrib}]>\n'
    return ir.from_proto(onnx.parser.parse_model(header + text + more))


def run_all(model: ir.Model) -> list[dict[str, np.ndarray]]:
    """Run the model at each size on three seeds; return the inputs of seed 0."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    session = ort.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    for sizes in dynamic_sizes(model):
        for seed in range(3):
            session.run(None, make_inputs(model, seed, sizes))
    return [make_inputs(model, 0, sizes) for sizes in dynamic_sizes(model)]


ENCODER = """
encoder (int64[batch, seq] input_ids, int64[batch, seq] attention_mask,
         int64[batch, seq] token_type_ids) => (float[a, b, c] hidden, float[d, e] bias)
{
    one = Constant<value_int = 1>()
    zero = Constant<value_int = 0>()
    axis = Constant<value_ints = [0]>()
    onef = Constant<value_float = 1.0>()
    most = Constant<value_float = -10000.0>()
    shape = Shape(input_ids)
    length = Gather(shape, one)
    counted = Range(zero, length, one)
    positions = Unsqueeze(counted, axis)
    w = Gather(words_table, input_ids)
    p = Gather(rows_table, positions)
    t = Gather(types_table, token_type_ids)
    wp = Add(w, p)
    hidden = Add(wp, t)
    float_mask = Cast<to = 1>(attention_mask)
    padding = Sub(onef, float_mask)
    bias = Mul(padding, most)
}
"""


def encoder(positions: int) -> ir.Model:
    made = ir.to_proto(parse(ENCODER))
    for name, size in {"words": 50, "rows": positions, "types": 2}.items():
        table = onnx.numpy_helper.from_array(np.ones((size, 4), "f4"), f"{name}_table")
        made.graph.initializer.append(table)
    return ir.from_proto(made)


def test_an_encoder() -> None:
    first, second = run_all(encoder(positions=64))
    assert first["input_ids"].shape == (1, 16) and second["input_ids"].shape == (3, 7)
    assert input_ranges(encoder(64)) == {
        "input_ids": (0, 50),
        "attention_mask": (0, 2),
        "token_type_ids": (0, 2),
    }
    assert first["attention_mask"].tolist() == [[1] * 14 + [0] * 2]
    assert second["attention_mask"].tolist() == [[1] * 6 + [0]] * 3
    assert set(first["token_type_ids"].flat) == {0, 1}
    assert len(set(first["input_ids"].flat)) > 5


@pytest.mark.parametrize("rows", [1, 2, 6, 8, 16])
def test_sequences_fit_the_position_table(rows: int) -> None:
    first, second = (sizes["seq"] for sizes in dynamic_sizes(encoder(rows)))
    assert first == rows and second == max(1, min(7, rows - 1))
    run_all(encoder(rows))


def test_a_sliced_table_bounds_the_sequence() -> None:
    text = """
    g (float[n, seq, 2] x) => (float[n, seq, 2] y)
    <float[1, 5, 2] table = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}> {
        shape = Shape<start = 1, end = 2>(x)
        zero = Constant<value_ints = [0]>()
        axis = Constant<value_ints = [1]>()
        rows = Slice(table, zero, shape, axis)
        y = Add(x, rows)
    }"""
    assert [sizes["seq"] for sizes in dynamic_sizes(parse(text))] == [5, 4]
    run_all(parse(text))


# Graph bodies with an integer input i (or ids), and the range it must have.
TABLE = (
    "<float[6, 2] table = {1,1,1,1,1,1,1,1,1,1,1,1}, int64 two = {2}, int64 six = {6}>"
)
RANGES = {
    "offset positions": (
        f"g (int64[n] i) => (float[n, 2] y) {TABLE}"
        "{ moved = Add(i, two)  y = Gather(table, moved) }",
        (0, 4),
    ),
    "indices counted from 2": (
        f"g (int64[n] i) => (float[n, 2] y) {TABLE}"
        "{ moved = Sub(i, two)  y = Gather(table, moved) }",
        (2, 8),
    ),
    "a wrapped index": (
        f"g (int64[n] i) => (float[n, 2] y) {TABLE} {{"
        " zero = Constant<value_int = 0>()  below = Less(i, zero)  up = Add(i, six)"
        " at = Where(below, up, i)  y = Gather(table, at) }",
        (0, 6),
    ),
    "through casts and reshapes": (
        f"g (int32[a, b] i) => (float[c, d, e] y) {TABLE} {{"
        " axis = Constant<value_ints = [1]>()  wide = Cast<to = 7>(i)"
        " more = Unsqueeze(wide, axis)  same = Identity(more)"
        " turned = Transpose(table)  back = Transpose<perm = [1, 0]>(turned)"
        " y = Gather(back, same) }",
        (0, 6),
    ),
    "two tables": (
        f"g (int64[n] i, float[4, 2] x) => (float[n, 2] y, float[n, 2] z) {TABLE}"
        "{ y = Gather(table, i)  z = Gather(x, i) }",
        (0, 4),
    ),
    "an axis": (
        f"g (int64[n] i) => (float[6, n] y) {TABLE}"
        "{ y = Gather<axis = -1>(table, i) }",
        (0, 2),
    ),
    "elements": (
        f"g (int64[3, 2] i) => (float[3, 2] y) {TABLE}"
        "{ y = GatherElements(table, i) }",
        (0, 6),
    ),
    "coordinates": (
        f"g (int64[n, 2] i) => (float[n] y) {TABLE} {{ y = GatherND(table, i) }}",
        (0, 2),
    ),
    "scattered": (
        "g (float[n, 5] x, int64[n, 1] i, float[n, 1] u) => (float[n, 5] y)"
        " { y = ScatterElements<axis = 1>(x, i, u) }",
        (0, 5),
    ),
    "a dynamic axis": (
        "g (float[batch, seq, 4] x, int64[k] i) => (float[batch, k, 4] y)"
        " { y = Gather<axis = 1>(x, i) }",
        (0, 7),
    ),
    "an axis of unknown size": (
        "g (float[batch, seq] x, int64[k] i) => (float y)"
        " { flat = Concat<axis = 0>(x, x)  y = Gather(flat, i) }",
        (0, 1),
    ),
    "narrow integers": (
        "g (int8[n] i, float[300] x) => (float[n] y)"
        "{ at = Cast<to = 6>(i)  y = Gather(x, at) }",
        (0, 128),
    ),
    "classes": (
        "g (int64[n] i) => (float[n, 4] y) <int64 depth = {4}, float[2] v = {0, 1}>"
        " { y = OneHot(i, depth, v) }",
        (0, 4),
    ),
    "a divisor": (
        "g (int64[n] x, int64[n] i) => (int64[n] y) { y = Div(x, i) }",
        (1, 10),
    ),
    "a size": ("g (int64[1] i) => (float[k] y) { y = ConstantOfShape(i) }", (1, 5)),
    "how many": (
        "g (float[9] x, int64[1] i) => (float[k] y, int64[k] z) { y, z = TopK(x, i) }",
        (1, 2),
    ),
    "a shape": (
        "g (float[a, b] x, int64[2] i) => (float[a, b] y) { y = Reshape(x, i) }",
        (0, 1),
    ),
    "a mask by comparison": (
        "g (int64[n] i) => (bool[n] y) <int64 zero = {0}> { y = Equal(i, zero) }",
        (0, 2),
    ),
    "a mask by its type": (
        "g (int64[n] i) => (bool[n] y) { y = Cast<to = 9>(i) }",
        (0, 2),
    ),
    "a picture": (
        "g (uint8[n, h, w, 3] i) => (float[n, h, w, 3] y) { y = Cast<to = 1>(i) }",
        (0, 256),
    ),
    "a table of words": (
        "g (int64[n] i) => (string[n] y)"
        '{ t = Constant<value_strings = ["\u00e9", "b", "c"]>() y = Gather(t, i) }',
        (0, 3),
    ),
    "any numbers": ("g (int64[n] i) => (int64[n] y) { y = Neg(i) }", (0, 10)),
}


@pytest.mark.parametrize("case", RANGES)
def test_ranges(case: str) -> None:
    text, (low, high) = RANGES[case]
    model = parse(text)
    assert input_ranges(model)["i"] == (low, high)
    for sizes, inputs in zip(dynamic_sizes(model), run_all(model), strict=True):
        most = high - 7 + sizes["seq"] if "seq" in sizes else high
        assert low <= inputs["i"].min() <= inputs["i"].max() < most


@pytest.mark.parametrize("op", ["Squeeze", "ReduceMax"])
def test_axes_are_named_once(op: str) -> None:
    text = f"g (float[1, 1, 4] x, int64[2] i) => (float[e] y) {{ y = {op}(x, i) }}"
    (inputs,) = run_all(parse(text))
    assert list(inputs["i"]) == [0, 1]


@pytest.mark.parametrize(
    "dtype, known", [("string", '["b", "c"]'), ("int64", "[70, -5]")]
)
def test_an_encoder_without_zeros_gets_what_it_lists(dtype: str, known: str) -> None:
    names = "cats_strings" if dtype == "string" else "cats_int64s"
    model = parse(
        f"g ({dtype}[n, 2] x) => (float[n, 2, c] y)"
        f" {{ y = ai.onnx.ml.OneHotEncoder<zeros = 0, {names} = {known}>(x) }}",
        domains=', "ai.onnx.ml" : 3',
    )
    run_all(model)


def test_parts_add_up_to_the_whole() -> None:
    body = "{ y, z = Split <axis = -1> (x, s) }"
    model = parse(f"g (float[n, 5] x, int64[2] s) => (float[n] y) {body}")
    assert {make_inputs(model, seed, {})["s"].sum() for seed in range(4)} == {5}


def test_indices_may_be_floats() -> None:
    text = (
        f"g (float[n] i) => (float[n, 2] y) {TABLE}"
        "{ whole = Cast<to = 6>(i)  y = Gather(table, whole) }"
    )
    made, *_ = run_all(parse(text))
    assert made["i"].dtype == np.float32 and (made["i"] == np.floor(made["i"])).all()


def test_contrib_embeddings() -> None:
    rows = ", ".join("1" * 40)
    model = parse(f"""
    g (int32[n, s] ids, int32[n, s] kinds) => (float[n, s, 2] y, int32[n] count)
    <float[7, 2] words = {{1,1,1,1,1,1,1,1,1,1,1,1,1,1}},
     float[20, 2] rows = {{{rows}}}, float[3, 2] types = {{1,1,1,1,1,1}},
     float[2] scale = {{1, 1}}, float[2] shift = {{0, 0}}>
    {{ y, count = com.microsoft.EmbedLayerNormalization
        (ids, kinds, words, rows, types, scale, shift) }}""")
    assert input_ranges(model) == {"ids": (0, 7), "kinds": (0, 3)}
    run_all(model)


def test_inside_functions() -> None:
    more = """
    <opset_import: ["" : 18], domain: "local">
    look (t, k) => (r) { same = Identity(k)  r = Gather(t, same) }"""
    text = f"g (int64[n] i) => (float[n, 2] y) {TABLE} {{ y = local.look(table, i) }}"
    model = parse(text, more=more)
    assert input_ranges(model) == {"i": (0, 6)}
    run_all(model)
    assert model.functions  # left as it was


def sizes_of(declared: str, body: str = "y = Identity(x)") -> list[dict[str, int]]:
    return dynamic_sizes(parse(f"g ({declared}) => (float y) {{ {body} }}"))


def test_sizes_follow_what_a_dimension_counts() -> None:
    assert sizes_of("float[2, 3] x") == [{}]
    assert sizes_of("float[batch_size, 3] x") == [{"batch_size": 1}, {"batch_size": 3}]
    past = sizes_of("float[batch, 4, past_sequence_length, 8] x")
    assert [sizes["past_sequence_length"] for sizes in past] == [5, 9]
    images = sizes_of("float[N, 3, height, width] x")
    assert [tuple(sizes.values()) for sizes in images] == [
        (1, 64, 64),
        (3, 96, 96),
        (2, 64, 96),
    ]
    weight = "k = Constant<value = float[4,3,1,1] {1,1,1,1,1,1,1,1,1,1,1,1}>() "
    unnamed = sizes_of("float[?, ?, ?, ?] x", weight + "z = Relu(x) y = Conv(x, k)")
    assert unnamed[0] == {"x#0": 1, "x#1": 3, "x#2": 64, "x#3": 64}
    assert unnamed[2] == {"x#0": 2, "x#1": 3, "x#2": 64, "x#3": 96}


CACHE = "float[batch, kv_heads, past_sequence_length, kv_cache_dim]"


@pytest.mark.parametrize(
    ("inputs", "operands"),
    [
        ("float[batch, time, 64] q", "z, , "),  # which packs keys and values, too
        ("float[batch, time, 32] q, float[batch, time, 16] k", "z, k, k"),
    ],
)
@pytest.mark.parametrize("made", ["z = Identity(q)", "z = Add(q, bias)"])
def test_a_cache_fits_the_heads_of_the_attention_that_reads_it(
    inputs: str, operands: str, made: str
) -> None:
    width = inputs.partition("]")[0].split()[-1]
    model = parse(
        f"g ({inputs}, {CACHE} pk, {CACHE} pv, int32[batch] last, int32 total)"
        f" => (float y) <float[{width}] bias = {{{', '.join('1' * int(width))}}}> {{"
        f"{made} a, b, c = com.microsoft.GroupQueryAttention <num_heads = 4, "
        f"kv_num_heads = 2> ({operands}, pk, pv, last, total) y = Identity(a) }}"
    )
    for sizes in dynamic_sizes(model):
        assert (sizes["kv_heads"], sizes["kv_cache_dim"]) == (2, 8)


def test_a_cache_that_drops_keys_is_full() -> None:
    attention = "com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 2"
    window = "float[batch, 2, past_window, 8]"
    sizes = sizes_of(
        f"float[batch, len, 64] q, {CACHE} pk, {CACHE} pv, {window} wk, {window} wv, "
        "int32[batch] last, int64[batch, total_sequence_length] mask",
        "z = Relu(q) s = Shape<start = 1>(mask) one = Constant<value_int = 0>() "
        f"n = Gather(s, one) t = Cast<to = 6>(n) a, b, c = {attention}> "
        f"(z, , , pk, pv, last, t) d, e, f = {attention}, local_window_size = 24, "
        "sliding_window_cache = 1> (z, , , wk, wv, last, t) y = Add(a, d)",
    )
    for found in sizes:
        assert found["past_window"] == 24 and found["total_sequence_length"] == 48
    first = sizes[0]
    assert first["past_sequence_length"] + first["len"] == 48


def test_equal_names_are_equal_sizes_and_others_differ_once() -> None:
    tries = sizes_of("float[b, src_len] x, float[b, tgt_len] z, float[b, src_len] w")
    assert tries == [
        {"b": 1, "src_len": 16, "tgt_len": 16},
        {"b": 3, "src_len": 7, "tgt_len": 7},
        {"b": 2, "src_len": 10, "tgt_len": 11},
    ]


def test_a_mask_counts_what_is_cached_and_what_is_new() -> None:
    """Whatever its size is called, as by exporters that number sizes."""
    first, *_ = sizes_of("int64[s1, s2] ids, int64[s1, s3] mask, float[s1, s4] past_k")
    assert first == {"s1": 1, "s2": 16, "s3": 21, "s4": 5}
    first, *_ = sizes_of("int64[s1, s2] ids, int64[s1, s2] mask, float[s1, s4] past_k")
    assert first["s2"] == 16
    first, *_ = sizes_of("int64[s1, s2] ids, int64[s1, s3] mask")
    assert first["s3"] == 16


def test_numbers_that_are_none_are_no_offsets() -> None:
    model = parse(
        "agraph (float[n] x) => (float[n] y) <float c = {1}> { y = Add (x, c) }"
    )
    value = model.graph.initializers["c"]
    value.const_value = ir.tensor(np.array(np.nan, np.float32))
    run_all(model)


def test_expressions_are_computed() -> None:
    declared = """float[batch, 2, past, 4] past_key, int64[batch, seq] ids,
        int64[batch, "past + seq"] attention_mask, int64[batch, total_length] mask,
        float[batch, "x y; z"] other, float["a**9**9**9", 2] power"""
    first, *_ = sizes_of(declared.replace("x", "k"), "y = Identity(past_key)")
    assert first["past"] == 5 and first["seq"] == 16
    assert first["past + seq"] == first["total_length"] == 21
    text = f"g ({declared}) => (float y) {{ y = Identity(past_key) }}"
    made = make_inputs(parse(text), 0, {"seq": 3, "past": 2})
    assert made["attention_mask"].shape == (1, 5)
    assert made["past_key"].shape == (1, 2, 2, 4)


def test_sizes_below_zero_are_dynamic() -> None:
    model = parse("g (float[2, 3] x) => (float y) { y = Identity(x) }")
    proto = ir.to_proto(model)
    proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value = -1
    assert dynamic_sizes(ir.from_proto(proto)) == [{"x#0": 1}, {"x#0": 3}]
    assert make_inputs(ir.from_proto(proto), 0, {"x#0": 4})["x"].shape == (4, 3)


def test_inputs_depend_on_the_seed_alone() -> None:
    model = encoder(64)
    same, again = (make_inputs(model, 1, {})["input_ids"] for _ in range(2))
    other = make_inputs(model, 2, {})["input_ids"]
    assert same.tolist() == again.tolist() != other.tolist()


def test_every_type() -> None:
    for kind in ir.DataType:
        if kind == ir.DataType.UNDEFINED or "FLOAT6" in kind.name:
            continue
        value = ir.Value(name="x", shape=ir.Shape([2, 5]), type=ir.TensorType(kind))
        graph = ir.Graph([value], [value], nodes=[], opset_imports={"": 23})
        array = make_inputs(ir.Model(graph, ir_version=10), 0, {})["x"]
        assert array.dtype == kind.numpy() and array.shape == (2, 5), kind
        assert len({str(number) for number in array.flat}) > 1, kind


def test_a_float_mask_is_told_by_its_use() -> None:
    model = parse("""
    g (float[n, 8] keep) => (float[n, 8] y) <float one = {1}, float low = {-10000}>
    { gone = Sub(one, keep)  y = Mul(gone, low) }""")
    assert make_inputs(model, 0, {})["keep"].tolist() == [[1] * 7 + [0]]


def test_inputs_with_defaults_are_left_out() -> None:
    model = parse("""g (float[2] x, float[2] w = {1, 2}) => (float[2] y)
    { y = Add(x, w) }""")
    assert list(make_inputs(model, 0, {})) == ["x"]


def test_what_can_not_be_made_is_said() -> None:
    with pytest.raises(FairhandError, match=r"shape \[1099511627776, 4\] is too large"):
        make_inputs(
            parse("g (float[n, 4] x) => (float y) { y = Relu(x) }"), 0, {"n": 2**40}
        )
    with pytest.raises(FairhandError, match="no dense tensor"):
        text = "g (sparse_tensor(float[2]) x) => (float y) { y = Identity(x) }"
        make_inputs(parse(text), 0, {})


def test_given_npz(tmp_path: Path) -> None:
    arrays = {"in:a": np.ones(2), "b": np.zeros(3), "out:0": np.ones(1)}
    np.savez(tmp_path / "given.npz", **arrays)
    given = read_given(tmp_path / "given.npz")
    assert {name: len(array) for name, array in given.items()} == {"a": 2, "b": 3}


def test_given_tensors(tmp_path: Path) -> None:
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    for place in range(12):
        tensor = onnx.numpy_helper.from_array(
            np.array([place]), "x" if not place else ""
        )
        (folder / f"input_{place}.pb").write_bytes(tensor.SerializeToString())
    (folder / "output_0.pb").write_bytes(b"")
    given = read_given(tmp_path, ["?", "one", "two"])
    assert list(given)[:4] == ["x", "one", "two", "3"]
    assert [int(array[0]) for array in given.values()] == list(range(12))
    assert list(read_given(folder)) == list(read_given(tmp_path / "test_data_set_0"))
    assert list(read_given(folder / "input_2.pb", ["only"])) == ["only"]


def test_unreadable_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.npz").write_bytes(b"PK\3\4 no archive")
    (tmp_path / "bad.pb").write_bytes(b"\xff\xff\xff")
    (tmp_path / "empty.pb").write_bytes(b"")
    np.savez(tmp_path / "pickled.npz", a=np.array([{}], dtype=object))
    for name in ("bad.npz", "bad.pb", "empty.pb", "pickled.npz", "", "missing.npz"):
        with pytest.raises(LoadError, match=str(tmp_path)):
            read_given(tmp_path / name)


def test_a_mask_of_words_leaves_some() -> None:
    """Softmax over nothing is NaN, and no row of a batch is like that."""
    model = parse(
        "g (bool[b, n] mask, bool[b, n] some) => (bool[b, n] y) { y = And(mask, some) }"
    )
    for size in (1, 9):
        made = make_inputs(model, 0, {"b": 2, "n": size})
        assert made["mask"][:, 0].all() and made["mask"].all() == (size == 1)
