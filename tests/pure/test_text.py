"""The text form: what it looks like, that it reads back as the same graph, and what is said of text
that does not.
"""

import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st

from infuse import dtypes
from infuse.errors import GraphError, InfuseError, ModelFileError, UnsupportedOperatorError
from infuse.ir import (
    DataFormat,
    Graph,
    Node,
    SequenceType,
    TensorType,
    Value,
    constant,
    dims,
    tensor,
)
from infuse.ir.equality import equal, same_attribute
from infuse.ir.file import load, save
from infuse.ir.parser import parse, parse_dim
from infuse.ir.printer import big_constants, print_graph
from infuse.ir.text import array_text, content_hash, dim_text
from infuse.ir.verify import verify
from infuse.ops.core.base import REGISTRY
from infuse.ops.core.samples import sample_rows
from tests.pure.random_graphs import (
    Branch,
    Toy,
    random_array,
    random_attribute,
    random_dim,
    random_graph,
)

SEEDS = st.integers(0, 10**6)


def sample() -> Graph:
    """One of everything."""
    graph = Graph('all "sorts"')
    x = graph.add_input("input:0", tensor(dtypes.float32, "batch", 3, "2*seq + 1", "seq//2"))
    flag = graph.add_input("flag", tensor(dtypes.bool_))
    pixels = graph.add_input(
        "pixels", TensorType(dtypes.uint8, (1, 3, dims.symbol("image width"), 8), DataFormat.NHWC)
    )
    weight = constant(np.arange(54, dtype=np.float32).reshape(2, 27), "conv.weight")
    shared = constant([1, -1], "shared")

    def add(
        operator: Toy, inputs: list[Value | None], *types: object, **given: object
    ) -> list[Value]:
        outputs = [Value(t, f"{operator.name}_output_{i}") for i, t in enumerate(types)]  # type: ignore[arg-type]
        graph.add_node(Node(operator, inputs, outputs, **given))  # type: ignore[arg-type]
        return outputs

    (conv,) = add(Toy(axes=(3, 3)), [x, weight, None, constant(0.5)], x.type)
    shape, rest = add(
        Toy(mode="shape", alpha=0.1),
        [conv, shared],
        tensor(dtypes.int64, 2),
        SequenceType(conv.type),
    )
    shape.content = np.array([dims.symbol("batch"), 3], dtype=object)
    (words,) = add(
        Toy(
            given=(
                None,
                True,
                2**70,
                -math.inf,
                "line\nbreak",
                b"\x00\xff",
                dtypes.int4,
                DataFormat.NCHW,
                (),
            )
        ),
        [pixels, constant(np.array(["a", 'b"'], dtype=object)), rest],
        TensorType(dtypes.string, None),
    )
    body = Graph("then")
    inner = Value(conv.type, "Toy_output_0")
    body.add_node(Node(Toy(), [conv, weight, shared], [inner]))
    body.add_output(inner, "result")
    other = Graph("else")
    other.add_output(conv, "result")
    (chosen,) = add(
        Branch(), [flag], conv.type, subgraphs={"then_branch": body, "else branch": other}
    )
    add(Toy(given=np.array([1.5, math.nan])), [words])
    graph.add_output(chosen, "output:0")
    graph.add_output(shape, "sizes")
    graph.add_output(constant(np.float16(2.5)), "half")
    return graph


def test_text_is_readable(golden: Callable[[str, str], None]) -> None:
    graph = sample()
    verify(graph, infer=False)
    golden("graph.txt", print_graph(graph))


def test_text_reads_back_as_the_same_graph() -> None:
    graph = sample()
    text = print_graph(graph)
    again = parse(text, big_constants(graph))
    assert equal(graph, again, annotations=False) is None
    assert print_graph(again) == text
    assert [v.name for v in again.inputs] == ["input:0", "flag", "pixels"]
    assert again.output_names == ["output:0", "sizes", "half"]
    shape = again.outputs[1]
    assert shape.content is not None
    assert shape.content.tolist() == [dims.symbol("batch"), 3]


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_random_graphs_read_back(seed: int) -> None:
    graph = random_graph(random.Random(seed))
    verify(graph, infer=False)
    text = print_graph(graph)
    again = parse(text, big_constants(graph))
    assert print_graph(again) == text
    assert equal(graph, again, annotations=False) is None
    verify(again, infer=False)


def test_without_hashes_the_text_still_reads_back() -> None:
    graph = sample()
    text = print_graph(graph, hashes=False)
    assert "$conv.weight: float32[2, 27]#?" in text
    assert equal(graph, parse(text, big_constants(graph)), annotations=False) is None


def test_clean_names_are_kept_and_clashes_are_numbered() -> None:
    graph = Graph("names")
    graph.inputs = [
        Value(tensor(dtypes.int8), name) for name in ("a", "a", "", "b c", "/m/l.0/Add-1", "a_1")
    ]
    for value in graph.inputs:
        graph.add_output(value)
    text = print_graph(graph)
    read = text[text.index("return") :]
    assert [word for word in read.split() if word.startswith("%")] == [
        "%a,",
        "%a_1,",
        "%0,",
        "%b_c,",
        "%/m/l.0/Add-1,",
        "%a_1_1",
    ]
    assert parse(text).output_names == ["a", "a", "", "b c", "/m/l.0/Add-1", "a_1"]


# -- words -----------------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_dimensions_read_back(seed: int) -> None:
    rnd = random.Random(seed)
    dim = random_dim(rnd, 3) - random_dim(rnd, 2)
    assert parse_dim(dim_text(dim)) == dim


@settings(max_examples=200, deadline=None)
@given(SEEDS)
@example(0)
def test_attributes_read_back(seed: int) -> None:
    value = random_attribute(random.Random(seed), 3)
    graph = Graph()
    graph.add_node(Node(Toy(given=value), [], []))
    (node,) = parse(print_graph(graph)).nodes
    assert same_attribute(node.op.attributes()["given"], value)


@pytest.mark.parametrize(
    "dtype", [d for d in dtypes.ALL if d.kind == "f" and d.bits <= 16], ids=str
)
def test_every_small_float_is_written_exactly(dtype: dtypes.DType) -> None:
    codes = np.arange(2 ** min(dtype.bits, 16), dtype=np.uint16 if dtype.bits == 16 else np.uint8)
    every = codes.view(dtype.numpy)
    with np.errstate(invalid="ignore"):
        finite = every[np.isfinite(every.astype(np.float64))][:: 1 if dtype.bits < 16 else 37]
    text = array_text(finite, dtype)
    assert text is not None
    read = parse(f'graph "" () {{\n  return x = {text}\n}}').outputs[0].const
    assert read is not None
    assert read.tobytes() == finite.tobytes()


@settings(max_examples=200)
@given(st.floats(width=32, allow_nan=False))
def test_floats_are_written_exactly(number: float) -> None:
    text = array_text(np.array([number], np.float32), dtypes.float32)
    read = parse(f'graph "" () {{\n  return x = {text}\n}}').outputs[0].const
    assert read is not None
    assert read.tobytes() == np.float32(number).tobytes()


def test_payloads_of_nans_are_kept() -> None:
    odd = np.array([0x7FC00001], np.uint32).view(np.float32)
    graph = Graph()
    graph.add_output(constant(odd, "odd"), "y")
    assert "#" in print_graph(graph)
    assert equal(graph, parse(print_graph(graph), big_constants(graph)), annotations=False) is None


@settings(max_examples=100, deadline=None)
@given(SEEDS)
def test_hashes_tell_arrays_apart(seed: int) -> None:
    rnd = random.Random(seed)
    a, b = (random_array(rnd, rnd.choice(dtypes.ALL)) for _ in range(2))
    same = a.dtype == b.dtype and a.shape == b.shape and a.tolist() == b.tolist()
    if a.dtype != object and same and a.tobytes() != b.tobytes():
        return  # zeros of both signs
    hashes = {content_hash(x, dtypes.by_numpy(x.dtype)) for x in (a, b)}
    assert len(hashes) == (1 if same else 2) or any(x != x for x in a.reshape(-1).tolist())


@pytest.mark.parametrize(("domain", "name"), sorted(REGISTRY))
def test_every_operator_reads_back(domain: str, name: str, tmp_path: Path) -> None:
    operator = REGISTRY[domain, name]
    graph = Graph(name)
    for row in sample_rows(operator):
        graph.add_node(Node(operator(**row.attributes), [], []))
    again = parse(print_graph(graph))
    save(graph, tmp_path / "g.infuse")
    for copy in (again, load(tmp_path / "g.infuse")):
        assert equal(graph, copy, annotations=False) is None
        assert [type(node.op) for node in copy.nodes] == [operator] * len(graph)


# -- reading ---------------------------------------------------------------------------------------


def test_left_out_types_are_inferred() -> None:
    graph = parse("""
        graph "short" (%x: float32[batch, 4]) {  # a comment
            %a, %b: int8[1] = test.toys::Toy(%x, axis=3)
            %c = test.toys::Toy(%a,)
            return y = %c, z = %b,
        }
    """)
    verify(graph, infer=False)
    assert graph.outputs[0].type == tensor(dtypes.float32, "batch", 4)
    assert graph.outputs[1].type == tensor(dtypes.int8, 1)
    assert graph.nodes[0].op == Toy(axis=3)


def test_attributes_that_are_left_out_are_defaults() -> None:
    graph = Graph()
    graph.add_node(Node(Toy(axis=-1, alpha=0.5, mode="x"), [], [], name="n"))
    assert '  test.toys::Toy(mode="x")\n' in print_graph(graph)
    graph = Graph()
    graph.add_node(Node(Toy(axis=True), [], []))  # equal to 1, yet not the same
    assert "axis=True" in print_graph(graph)


HEAD = 'graph "g" (%x: float32[2]) {\n'
WRONG = {
    "": ("line 1, column 1", "expected 'graph', found the end of the text"),
    "grap": ("line 1, column 1", "expected 'graph', found 'grap'"),
    "graph g": ("line 1, column 7", "expected the quoted name of the graph"),
    'graph "g" (x)': ("line 1, column 12", "expected a value such as %x"),
    'graph "g" (%x: float33[2])': (
        "line 1, column 16",
        "an element type such as float32, found 'float33'",
    ),
    'graph "g" (%x: float32[-2])': ("line 1, column 24", "a size is at least zero"),
    'graph "g" (%x: float32[2]@NHCW)': ("line 1, column 27", "expected a storage format"),
    'graph "g" (%x: float32[2]@NHWC)': (
        "line 1, column 26",
        "a tensor of rank 1 cannot be stored as NHWC",
    ),
    'graph "g" (%x: float32[2] %y': ("line 1, column 27", "expected ',' or ')'"),
    'graph "g" (%x: float32[b // 0])': ("line 1, column 26", "by zero"),
    'graph "g\\q" ()': ("line 1, column 7", "not a well-formed string"),
    HEAD: ("line 2, column 1", "expected an operator, found the end of the text"),
    HEAD + "  ?": ("line 2, column 3", "expected an operator"),
    HEAD + "  %a = ": ("line 2, column 8", "expected an operator"),
    HEAD + "  %a = Toy(%x": ("line 2, column 14", "expected ',' or ')'"),
    HEAD + "  %a = Toy(,)": ("line 2, column 12", "expected a value such as %x, or a constant"),
    HEAD + "  %a = Toy(axis=)": ("line 2, column 17", "expected the value of an attribute"),
    HEAD + "  %a = Toy(axis=12.5.1)": ("line 2, column 21", "'.' has no meaning here"),
    HEAD + "  %a = Toy(float32[2]{1})": ("line 2, column 22", "expected 2 elements, found 1"),
    HEAD + "  %a = Toy(int8[1]{300})": ("line 2, column 19", "do not fit int8[1]"),
    HEAD + "  %a = Toy(int8[1]{1.5})": ("line 2, column 19", "do not fit int8[1]"),
    HEAD + "  %a = Toy(int8[n]{1})": ("line 2, column 19", "a shape of numbers"),
    HEAD + '  %a = Toy(g=hex"0g")': ("line 2, column 17", "not hexadecimal digits"),
    HEAD + '  %a = Toy(g=int16[1]hex"000000")': (
        "line 2, column 22",
        "3 bytes do not make int16[1]",
    ),
    HEAD + "  $w: float32[9]#0123456789abcdef": ("line 2, column 7", "only the hash of $w"),
    HEAD + "  return y = %x": ("line 2, column 16", "expected ',' or '}'"),
    HEAD + "  return y = %x }}": ("line 2, column 18", "expected the end of the text"),
    HEAD + "  return y = & }": ("line 2, column 14", "'&' has no meaning here"),
    HEAD + '  return "': ("line 2, column 10", "has no meaning here"),
    HEAD + "  If(%x) { then = 3": ("line 2, column 19", "expected 'graph'"),
}


@pytest.mark.parametrize("text", WRONG, ids=range(len(WRONG)))
def test_errors_say_where_and_what(text: str) -> None:
    where, what = WRONG[text]
    with pytest.raises(ModelFileError) as caught:
        parse(text)
    assert caught.value.where == where
    assert what in caught.value.what


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        ("%x: int8[] = test.toys::Toy()", "value %x is made twice"),
        ("%a, %a = test.toys::Toy()", "value %a is made twice"),
        ("%a = test.toys::Toy(%b)", "value %b is not made before it is read"),
        ("%a = test.toys::Toy(%a)", "value %a is not made before it is read"),
        ("%a = test.toys::Toy($a)", "value $a is not made before it is read"),
        (
            'Branch() { b = graph "" () { %i = test.toys::Toy() return }}\n%a = test.toys::Toy(%i)',
            "value %i is not made",
        ),
    ],
)
def test_names_are_given_once_and_before_they_are_read(statement: str, what: str) -> None:
    with pytest.raises(GraphError, match=r"line 2, column \d+|line 3, column \d+") as caught:
        parse(f"{HEAD}{statement}\n return y = %x }}")
    assert what in caught.value.what


def test_wrong_arrays_are_refused() -> None:
    graph = sample()
    text = print_graph(graph)
    (name,) = [n for n in big_constants(graph) if n == "conv.weight"]
    right = big_constants(graph)[name]
    for wrong, what in [
        (right.astype(np.float64), "the array given for it float64[2, 27]"),
        (right.reshape(27, 2), "the array given for it float32[27, 2]"),
        (right + 1, "has other elements"),
    ]:
        with pytest.raises(ModelFileError, match="line 2, column 17") as caught:
            parse(text, {**big_constants(graph), name: wrong})
        assert what in caught.value.what


def test_unknown_attributes_are_refused_with_their_place() -> None:
    with pytest.raises(
        UnsupportedOperatorError, match=r"line 2, column 3.*does not take these attributes: heat"
    ):
        parse(HEAD + "  test.toys::Toy(heat=3) return }")


@pytest.mark.parametrize(
    "text",
    [
        ('graph "g" (%x: float32[' + "(" * 5000 + "1"),
        ('graph "g" (%x: ' + "seq(" * 5000),
        ('graph "g" () { test.toys::Toy(given=' + "(" * 5000),
        ('graph "g" () {' + 'Branch() { b = graph "" () {' * 2000),
    ],
    ids=["size", "type", "attribute", "graph"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    with pytest.raises(ModelFileError, match="nested more than 256 deep"):
        parse(text)


def test_sizes_cannot_explode() -> None:
    with pytest.raises(ModelFileError, match="more than 1024 terms"):
        parse_dim("*".join(["(a + b + c + d + e + f + g + h)"] * 20))
    with pytest.raises(ModelFileError, match="whole number"):
        parse_dim("9" * 100_000)


@settings(max_examples=300, deadline=None)
@given(SEEDS)
def test_damaged_text_gives_an_error_of_ours_or_a_graph(seed: int) -> None:
    rnd = random.Random(seed)
    graph = sample()
    text = print_graph(graph)
    for _ in range(rnd.randint(1, 3)):
        at = rnd.randrange(len(text))
        until = at + rnd.choice([0, 1, 1, 5, 40])
        text = text[:at] + rnd.choice(["", "", *'(){}[]<>,"%$#@:=-+/\\ 09a_\n']) + text[until:]
    try:
        parsed = parse(text, big_constants(graph))
    except InfuseError:
        return
    verify(parsed, infer=False)
