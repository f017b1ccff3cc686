"""What statements of functions are in C++."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import singledispatch

from infuse.ir.dims import Dim
from infuse.lowering.elementwise import Elementwise
from infuse.lowering.expressions import Aggregate, Expression, Invocation, KernelSizes
from infuse.lowering.statements import (
    Arrays,
    Assign,
    Constant,
    CopyElements,
    Define,
    If,
    InterleavePlanes,
    KernelCall,
    Loader,
    MapCall,
    MapWork,
    Pointers,
    Repeat,
    Require,
    Result,
    Return,
    Room,
    RunBody,
    Scope,
    Scratch,
    Statement,
    Struct,
    Text,
    Variable,
    Work,
)
from infuse.targets.cpu.emit.elementwise import work_lines
from infuse.targets.cpu.emit.sizes import estimate_text, size_text, sizes_text
from infuse.targets.text.expressions import ExpressionText


class _Cpp(ExpressionText):
    """Expressions of C++: sizes of the struct `d`, parts of the model `m`."""

    sizes, model, nothing = "d.", "m.", "nullptr"

    def size(self, size: Dim) -> str:
        return size_text(size)

    def estimate(self, size: Dim) -> str:
        return estimate_text(size)

    def aggregate(self, braces: Aggregate) -> str:
        return f"{braces.type}{_template(braces.template)}{{{self.fields(braces.items)}}}"

    def invocation(self, called: Invocation) -> str:
        arguments = ", ".join(map(self.text, called.arguments))
        return f"{called.function}{_template(called.template)}({arguments})"

    def kernel_sizes(self, sizes: KernelSizes) -> str:
        return sizes_text(sizes)


text = _Cpp().text
"""An expression as C++."""


def scratch_text(scratch: Scratch) -> str:
    """What tells the bytes of scratch memory."""
    arguments = ", ".join(map(text, scratch.arguments))
    return f"{scratch.function}{_template(scratch.template)}({arguments})"


def _template(template: Sequence[str]) -> str:
    return f"<{', '.join(template)}>" if template else ""


def _initializer(fields: Mapping[str, Expression]) -> str:
    """The content of a struct, every field named."""
    return f"{{{', '.join(f'.{name} = {text(value)}' for name, value in fields.items())}}}"


@singledispatch
def lines(statement: Statement) -> Sequence[str]:
    """The lines of a statement."""
    raise AssertionError(f"nobody prints a {type(statement).__name__}")


def indented(statements: Sequence[Statement]) -> list[str]:
    """The lines of inner statements."""
    return [f"  {line}" for statement in statements for line in lines(statement)]


@lines.register
def _kernel_call(s: KernelCall) -> Sequence[str]:
    context = ("c",) if s.context else ()
    arguments = ", ".join(map(text, (*context, *s.arguments)))
    call = f"{s.kernel}{_template(s.template)}({arguments})"
    if s.result:
        return [f"const long {s.result} = {call};"]
    return [f"if (!{call}) return {s.failure};" if s.failure else f"{call};"]


@lines.register
def _arrays(s: Arrays) -> Sequence[str]:
    each = (f"{name}[] = {{{', '.join(map(text, elements))}}}" for name, elements in s.lists)
    return [f"{'const ' if s.constant else ''}long {', '.join(each)};"]


@lines.register
def _struct(s: Struct) -> Sequence[str]:
    return [f"const {s.type} {s.name} = {_initializer(dict(s.fields))};"]


@lines.register
def _constant(s: Constant) -> Sequence[str]:
    return [f"const {s.type} {s.name} = {text(s.value)};"]


@lines.register
def _room(s: Room) -> Sequence[str]:
    end = " = {}" if s.zeros else ""
    return [f"long {', '.join(f'{name}[{length}]{end}' for name, length in s.lengths)};"]


@lines.register
def _assign(s: Assign) -> Sequence[str]:
    return [f"{', '.join(f'{text(place)} = {text(value)}' for place, value in s.pairs)};"]


@lines.register
def _require(s: Require) -> Sequence[str]:
    return [f"if (!({text(s.condition)})) return {s.failure};"]


@lines.register
def _variable(s: Variable) -> Sequence[str]:
    each = (f"{name} = {text(value)}" if value else name for name, value in s.values)
    return [f"{s.type} {', '.join(each)};"]


@lines.register
def _pointers(s: Pointers) -> Sequence[str]:
    return [f"const void* {s.name}[] = {{{', '.join((*map(text, s.elements), 'nullptr'))}}};"]


@lines.register
def _run_body(s: RunBody) -> Sequence[str]:
    return [f"if (int failed = run_{s.number}(m, in, nullptr)) return failed;"]


@lines.register
def _return(s: Return) -> Sequence[str]:
    return [f"if ({text(s.condition)}) return{f' {s.failure}' if s.failure else ''};"]


@lines.register
def _result(s: Result) -> Sequence[str]:
    return [f"return {text(s.value)};"]


@lines.register
def _scope(s: Scope) -> Sequence[str]:
    return ["{", *indented(s.body), "}"]


@lines.register
def _if(s: If) -> Sequence[str]:
    head = [f"if ({text(s.condition)}) {{", *indented(s.then)]
    other = ["} else {", *indented(s.otherwise)] if s.otherwise else []
    return [*head, *other, "}"]


@lines.register
def _repeat(s: Repeat) -> Sequence[str]:
    start = "" if s.first is None else f"{s.type} i = {text(s.first)}"
    step = f"{s.also} = ++i" if s.also else "++i"
    head = f"for ({start}; {text(s.condition)}; {step}) {{"
    return [head, *indented(s.body), "}"]


@lines.register
def _define(s: Define) -> Sequence[str]:
    inlined = " INFUSE_LAMBDA" if s.device else ""
    around = "&" if s.references else "="
    head = f"const auto {s.name} = [{around}]({s.parameters}){inlined} {{"
    return [head, *indented(s.body), "};"]


@lines.register
def _loader(s: Loader) -> Sequence[str]:
    load = Result(f"load({s.pointer} + row * {s.columns} + col, lanes)")
    return lines(Define(s.name, "long row, long col, auto lanes", (load,)))


@lines.register
def _map_call(s: MapCall) -> Sequence[str]:
    arguments = ", ".join(("c", *s.arguments))
    head = f"{s.kernel}({arguments}, [=]({s.parameters}) INFUSE_LAMBDA {{"
    return [head, *indented(s.body), f"}}, {s.cost});"]


@lines.register
def _text(s: Text) -> Sequence[str]:
    return [s.text]


# -- what fusion and placement make --------------------------------------------------------------

_PARAMETERS = {"acc": "auto acc", "row": "long row", "col": "long col", "lanes": "auto lanes"}


@lines.register
def _work(s: Work) -> Sequence[str]:
    parameters = ", ".join(_PARAMETERS[name] for name in s.takes)
    head = f"const auto {s.name} = [=]({parameters}) INFUSE_LAMBDA {{"
    return [head, "  using L = decltype(lanes);", *_inside(s.work), "};"]


@lines.register
def _map_work(s: MapWork) -> Sequence[str]:
    kernel = "map2d" if s.in_vectors else "map_scalar"
    takes = ("row", "col", "lanes") if s.in_vectors else ("row", "col")
    parameters = ", ".join(_PARAMETERS[name] for name in takes)
    head = "using L = decltype(lanes);" if s.in_vectors else "using L = One; const One lanes{};"
    divides = s.work.divides
    return [
        *(["bool zero = false, *const found_zero = &zero;"] if divides else []),
        f"{kernel}(c, {s.rows}, {s.columns}, [=]({parameters}) INFUSE_LAMBDA {{",
        f"  {head}",
        *_inside(s.work),
        f"}}, {s.cost});",
        *(["if (!(!zero)) return DIVIDES_BY_ZERO;"] if divides else []),
    ]


def _inside(work: Elementwise) -> list[str]:
    return [f"  {line}" for line in work_lines(work)]


@lines.register
def _copy_elements(s: CopyElements) -> Sequence[str]:
    shape, read, write = (
        ", ".join(map(text, names)) or empty
        for names, empty in ((s.shape, "1L"), (s.read_strides, "0L"), (s.write_strides, "0L"))
    )
    operands = f"{max(1, s.rank)}, shape, from, to, {s.source}, {s.target}"
    return [
        f"const long shape[] = {{{shape}}}, from[] = {{{read}}}, to[] = {{{write}}};",
        f"copy_nd<{s.bytes}>(c, {operands});",
    ]


@lines.register
def _interleave_planes(s: InterleavePlanes) -> Sequence[str]:
    operands = f"{s.images}, {s.pixels}, {s.source}, {s.target}"
    return [f"interleave_planes<{s.channels}>(c, {operands});"]
