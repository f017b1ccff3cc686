"""Statements of generated functions: the C++ that they are, and that nobody else writes any."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import infuse
from infuse import dtypes
from infuse.lowering import statements as cpp
from infuse.lowering.expressions import (
    AsSize,
    BlockOf,
    BodyOutput,
    Calculated,
    Chosen,
    Element,
    Expression,
    FieldOf,
    Operation,
    Pointed,
    PointerTo,
    Size,
    SizeOf,
    elements,
    infix,
    invoke,
)
from infuse.lowering.program import Program
from infuse.lowering.writer import FunctionWriter
from infuse.targets.cpu.emit.language import CPP

ROOMS = ("lowering/operators", "targets/cpu/lower")
LOWERINGS = sorted(p for room in ROOMS for p in (Path(infuse.__file__).parent / room).glob("*.py"))

STATED = ("when", "repeat", "end_when", "fail_unless", "assign")


def texts(tree: ast.Module) -> Iterator[str]:
    """All texts in code, without docstrings."""
    bodies = [node for node in ast.walk(tree) if isinstance(node, ast.Expr)]
    docs = {id(node.value) for node in bodies if isinstance(node.value, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs:
            yield node.value


@pytest.mark.parametrize("path", LOWERINGS, ids=lambda path: path.stem)
def test_lowerings_write_no_statements(path: Path) -> None:
    written = {text for text in texts(ast.parse(path.read_text())) if text.endswith(";")}
    assert written <= {"using namespace recur;"}


@pytest.mark.parametrize("path", LOWERINGS, ids=lambda path: path.stem)
def test_lowerings_write_no_conditions(path: Path) -> None:
    """What a lowering compares or stores is made of expressions: its texts are names alone."""
    for call in ast.walk(ast.parse(path.read_text())):
        name = getattr(getattr(call, "func", None), "attr", "")
        if not isinstance(call, ast.Call) or name not in STATED:
            continue
        for each in call.args[:2]:
            assert not isinstance(each, ast.JoinedStr), ast.unparse(call)
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                assert each.value.isidentifier() or each.value == "", ast.unparse(call)


@pytest.fixture
def f() -> FunctionWriter:
    return FunctionWriter(Program("p", [], [], []), "work", [])


@pytest.mark.parametrize(
    ("statement", "text"),
    [
        (cpp.KernelCall("pool", ("n0", "p1")), "pool(c, n0, p1);"),
        (cpp.KernelCall("list", ("n0",), context=False), "list(n0);"),
        (cpp.KernelCall("count", ("p0",), context=False, result="n"), "const isize n = count(p0);"),
        (
            cpp.KernelCall("run", (elements("p0", "1.0f", type="Cell", template=("float",)),)),
            "run(c, Cell<float>{p0, 1.0f});",
        ),
        (
            cpp.Struct("Windows", "w", (("n", "1"), ("axis", elements(elements("2"))))),
            "const Windows w = {.n = 1, .axis = {{2}}};",
        ),
        (
            cpp.KernelCall("gather", ("p0",), ("4",), "BAD_INDEX"),
            "if (!gather<4>(c, p0)) return BAD_INDEX;",
        ),
        (cpp.Arrays((("in", ("1L", "n2")), ("to", ()))), "const isize in[] = {1L, n2}, to[] = {};"),
        (cpp.Arrays((("in", ("1L",)),), constant=False), "isize in[] = {1L};"),
        (
            cpp.Struct("Trees", "trees", (("nodes", "p0"), ("count", "n1"))),
            "const Trees trees = {.nodes = p0, .count = n1};",
        ),
        (cpp.Constant("isize", "most", "*p0"), "const isize most = *p0;"),
        (cpp.Room((("out", 3), ("step", 2))), "isize out[3], step[2];"),
        (cpp.Room((("rows", 2),), zeros=True), "isize rows[2] = {0};"),
        (cpp.Assign((("*s1", "out[0]"), ("*s2", "3L"))), "*s1 = out[0], *s2 = 3L;"),
        (cpp.Require(infix("a", "==", "b"), "BAD_SIZES"), "if (!(a == b)) return BAD_SIZES;"),
        (cpp.Return(infix("n0", "==", 0)), "if (n0 == 0) return 0;"),
        (cpp.Return("done", ""), "if (done) return;"),
        (cpp.Variable("isize", (("a", "1"), ("b", "2"))), "isize a = 1, b = 2;"),
        (cpp.Pointers("in", ("p0",)), "const void* in[] = {p0, nullptr};"),
        (
            cpp.RunBody(3),
            "{ const int failed = run_3(m, in, nullptr); if (failed) return failed; }",
        ),
        (cpp.Result(infix("x", "+", 1)), "return x + 1;"),
        (cpp.Text("using L = One;"), "using L = One;"),
        (
            cpp.KernelCall("rows", (elements("p0", "n1", type="Rows"), Size(3))),
            "rows(c, Rows{p0, n1}, 3L);",
        ),
        (
            cpp.Variable("Shape", (("shape", elements("n0", "0.5f")),)),
            "Shape shape = {n0, 0.5f};",
        ),
        (
            cpp.Constant("auto", "seen", elements("inner", type="Capped", template=("float",))),
            "const auto seen = Capped<float>{inner};",
        ),
        (
            cpp.Assign((("width", Calculated("{0} == 1 ? {1} : {0}", ("n0", "n1"), max)),)),
            "width = n0 == 1 ? n1 : n0;",
        ),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_single_statements(statement: cpp.Statement, text: str) -> None:
    assert CPP.lines(statement) == [text]


@pytest.mark.parametrize(
    ("expression", "printed"),
    [
        (infix(infix("a", "+", "b"), "*", "c"), "(a + b) * c"),
        (infix("a", "*", "b", "c"), "a * b * c"),
        (infix("a", "-", infix("b", "-", "c")), "a - (b - c)"),
        (infix(infix("a", "-", "b"), "-", "c"), "a - b - c"),
        (infix("a", "/", infix("b", "%", "c")), "a / (b % c)"),
        (infix(infix("a", "||", "b"), "&&", "c"), "(a || b) && c"),
        (infix(infix("a", "<", "b"), "||", infix("c", "&&", "d")), "a < b || c && d"),
        (Operation("!", (infix("a", "==", "b"),)), "!(a == b)"),
        (Operation("!", (invoke("is", "a", template=("4",)),)), "!is<4>(a)"),
        (Chosen(infix("n", "==", 1), "0", Size(3)), "n == 1 ? 0 : 3L"),
        (infix("a", "+", Chosen("b", "c", "d")), "a + (b ? c : d)"),
        (Chosen(Chosen("a", "b", "c"), "d", "e"), "(a ? b : c) ? d : e"),
        (Element("p0", infix("i", "+", 1)), "p0[i + 1]"),
        (AsSize(infix("a", "+", "b")), "as_size(a + b)"),
        (AsSize(Element("p0", 0)), "as_size(p0[0])"),
        (Pointed(PointerTo(BodyOutput(2, 0), dtypes.bool_)), "*(const bool*)m->f2.results[0]"),
        (PointerTo(infix("p", "+", "n"), is_written=True), "(char*)(p + n)"),
        (FieldOf(BlockOf(1, 3), "data"), "m->f1.left[3].data"),
        (SizeOf("batch"), "d->s_batch"),
    ],
    ids=str,
)
def test_operators_bind_as_they_are_nested(expression: Expression, printed: str) -> None:
    assert CPP.text(expression) == printed


def test_statements_of_statements(f: FunctionWriter) -> None:
    with f.repeat(infix("i", "<", "n0")), f.when(infix("i", ">", 0)):
        f.assign(Element("a", "i"), "i")
    with f.define("input", "isize row"):
        f.add(cpp.Result("row"))
    f.loader("rows", "p0", "n1")
    with f.map("map2d", "n0", "n1", parameters="isize row, isize col", cost=4):
        f.call("sink", "row", context=False)
    with f.block(cpp.Scope):
        f.constant("bytes", "8L")
    assert CPP.body_of(f.function) == [
        "for (isize i = 0; i < n0; ++i) {",
        "  if (i > 0) {",
        "    a[i] = i;",
        "  }",
        "}",
        "const auto input = [=](isize row) INFUSE_LAMBDA {",
        "  return row;",
        "};",
        "const auto rows = [=](isize row, isize col, auto lanes) INFUSE_LAMBDA {",
        "  return load(p0 + row * n1 + col, lanes);",
        "};",
        "map2d(c, n0, n1, [=](isize row, isize col) INFUSE_LAMBDA {",
        "  sink(row);",
        "}, 4);",
        "{",
        "  const isize bytes = 8L;",
        "}",
    ]


def test_a_branch_has_two_sides(f: FunctionWriter) -> None:
    with f.collect() as then:
        f.assign("a", 1)
    with f.collect() as otherwise:
        f.assign("a", 2)
    f.add(cpp.If("going", tuple(then), tuple(otherwise)))
    assert CPP.body_of(f.function) == ["if (going) {", "  a = 1;", "} else {", "  a = 2;", "}"]


def test_a_call_that_may_fail_is_checked(f: FunctionWriter) -> None:
    f.call("copy", "p0")
    assert not f.checks
    f.call("find", "p0", failure="BAD_INDEX")
    f.call("copy", "p0")
    assert f.checks
