"""C++: what it says differently from C."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from infuse.dtypes import DType
from infuse.ir.dims import Dim
from infuse.lowering.elementwise import Elementwise
from infuse.lowering.expressions import Aggregate, KernelSizes
from infuse.lowering.statements import (
    Define,
    InterleavePlanes,
    Loader,
    MapCall,
    MapWork,
    Result,
    Statement,
    Work,
)
from infuse.targets.cpu.emit.elementwise import work_lines
from infuse.targets.cpu.emit.formulas import scalar_type
from infuse.targets.cpu.emit.sizes import struct_text
from infuse.targets.text.language import Language
from infuse.targets.text.literals import literal

_PARAMETERS: Final = {
    "acc": "auto acc",
    "row": "isize row",
    "col": "isize col",
    "lanes": "auto lanes",
}


class Cpp(Language):
    """C++ with templates, functions inside of functions and kernels that take these."""

    nothing = "nullptr"
    linkage = '__attribute__((visibility("hidden")))'
    apart = "[[gnu::noinline]]"
    context, given = "Context& c", "*c"
    begin = "  const FlushSubnormals flush;\n"
    anywhere = "INFUSE_ANYWHERE"

    def aggregate(self, braces: Aggregate) -> str:
        return f"{self.instance(braces.type, braces.template)}{{{self.fields(braces.items)}}}"

    def instance(self, function: str, template: Sequence[str]) -> str:
        return f"{function}<{', '.join(template)}>" if template else function

    def literal(self, value: float, dtype: DType) -> str:
        return literal(value, dtype)

    def scalar_type(self, dtype: DType) -> str:
        return scalar_type(dtype)

    def call_sizes(self, sizes: KernelSizes, size_text: Callable[[Dim], str]) -> str:
        return struct_text(sizes, size_text)

    def sizes_parameter(self, type: str, name: str) -> str:
        return f"const {type}& {name}"

    # -- statements --------------------------------------------------------------------------------

    def own_lines(self, statement: Statement) -> Sequence[str]:
        match statement:
            case Define(name, parameters, body):
                inlined = " INFUSE_LAMBDA" if statement.device else ""
                around = "&" if statement.references else "="
                head = f"const auto {name} = [{around}]({parameters}){inlined} {{"
                return [head, *self.indented(body), "};"]
            case Loader(name, pointer, columns):
                load = Result(f"load({pointer} + row * {columns} + col, lanes)")
                return self.lines(Define(name, "isize row, isize col, auto lanes", (load,)))
            case MapCall(kernel, arguments, parameters, body, cost):
                given = ", ".join(("c", *arguments))
                head = f"{kernel}({given}, [=]({parameters}) INFUSE_LAMBDA {{"
                return [head, *self.indented(body), f"}}, {cost});"]
            case Work(name, takes, work):
                parameters = ", ".join(_PARAMETERS[each] for each in takes)
                head = f"const auto {name} = [=]({parameters}) INFUSE_LAMBDA {{"
                return [head, "  using L = decltype(lanes);", *_inside(work), "};"]
            case MapWork():
                return _map_work(statement)
            case InterleavePlanes(channels, images, pixels, source, target):
                operands = f"{images}, {pixels}, {source}, {target}"
                return [f"interleave_planes<{channels}>(c, {operands});"]
        raise AssertionError(f"nobody prints a {type(statement).__name__}")

    def copy_head(self, bytes: int) -> str:
        return f"copy_nd<{bytes}>(c"


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


CPP: Final = Cpp()
