"""The closed functions as C++: what a library of them is compiled from, and their names."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from infuse.lowering.program import Function, Parameter
from infuse.lowering.statements import Statement
from infuse.targets import KERNELS
from infuse.targets.cpu.closed.hosted import HostFunction
from infuse.targets.cpu.closed.parts import ClosedCall, InterpretedMap, InterpretedWork
from infuse.targets.cpu.closed.work import ElementFunction, element_bytes
from infuse.targets.cpu.emit.functions import headers_of
from infuse.targets.cpu.emit.language import Cpp
from infuse.targets.cpu.emit.shared_files import APART, shared_by, shared_files
from infuse.targets.cpu.emit.sizes import struct_text
from infuse.targets.cpu.emit.units import FUNCTION
from infuse.targets.text.language import clean_name

_HIDDEN: Final = 'extern "C" __attribute__((visibility("hidden")))'
_WEAK: Final = 'extern "C" __attribute__((weak, visibility("hidden")))'
"""Of functions that several objects of a library may have."""
_INTERPRETER: Final = ("work_block.cpp",)
_EXECUTOR: Final = ("executor.cpp", "programs.cpp", *_INTERPRETER)
_TELLING: Final = "functions.cpp"
_TOGETHER: Final = 12
"""Functions of one file: what reading the headers for each would take."""


class ClosedCpp(Cpp):
    """C++ in which elementwise work is data."""

    def own_lines(self, statement: Statement) -> Sequence[str]:
        match statement:
            case InterpretedWork(name, code, result):
                return [f"const Interpreted<{result}> {name}{{{code}}};"]
            case InterpretedMap(rows, columns, code, cost, divides):
                call = f"map_interpreted(c, {rows}, {columns}, {code}, {cost})"
                return [f"if (!{call}) return DIVIDES_BY_ZERO;" if divides else f"{call};"]
        return super().own_lines(statement)

    def parameter_text(self, parameter: Parameter) -> str:
        if parameter.kind == "work":
            return f"const WorkCall {parameter.name}"
        if parameter.kind == "list":
            return f"const isize* {parameter.name}"
        return super().parameter_text(parameter)


CLOSED: Final = ClosedCpp()


def _digest(*texts: str) -> str:
    return hashlib.blake2b("\0".join(texts).encode(), digest_size=8).hexdigest()


def closed_name(function: Function) -> str:
    """A name that only equal functions have."""
    text = _digest(CLOSED.text_of(function), *sorted(headers_of(function)))
    return f"{clean_name(function)}_{text}"


def element_name(function: ElementFunction) -> str:
    """A name that only equal functions of elements have."""
    how = "vector" if function.in_vectors else "single"
    return f"element_{_digest(how, function.text, *function.takes, function.gives)}"


def closed_files(
    functions: Mapping[str, ClosedCall | HostFunction],
    elements: Mapping[str, ElementFunction],
    facts: str,
    *,
    executing: bool = True,
) -> dict[str, str]:
    """Names and texts of the files of a library with these functions, by their names. `facts`: what
    it tells of itself; `executing`: it runs programs, and is not one of functions that another one
    lacks, whose files have one function each.
    """
    texts: dict[str, str] = {}
    calls = {n: f for n, f in functions.items() if isinstance(f, ClosedCall)}
    hosted = [f for f in functions.values() if isinstance(f, HostFunction)]
    by_headers = sorted(calls, key=lambda name: (sorted(_headers(calls[name])), name))
    if executing:
        for number, names in enumerate(_parts(by_headers)):
            texts[f"functions_{number}.cpp"] = _functions({n: calls[n] for n in names}, _HIDDEN)
    else:
        for name in by_headers:
            texts[f"{name}.cpp"] = FUNCTION + _functions({name: calls[name]}, _WEAK)
    if hosted or executing:
        texts["hosted.cpp"] = _hosted(sorted(hosted, key=lambda f: f.name))
    for number, names in enumerate(_parts(sorted(elements))):
        texts[f"elements_{number}.cpp"] = _elements([elements[n] for n in names])
    shared = shared_by([call.function for call in calls.values()])
    added = _EXECUTOR if executing else _INTERPRETER * any(map(_interprets, calls.values()))
    return {
        **texts,
        **shared_files(shared),
        "table.cpp": _table(
            {name: _kinds(functions[name]) for name in sorted(functions)},
            {name: elements[name] for name in sorted(elements)},
            facts,
        ),
        **{name: (KERNELS / name).read_text("utf-8") for name in (*added, _TELLING)},
    }


def _interprets(call: ClosedCall) -> bool:
    """Whether elementwise work of a function is data."""
    return any(parameter.kind == "work" for parameter in call.function.parameters)


def _kinds(function: ClosedCall | HostFunction) -> str:
    return function.slots() if isinstance(function, HostFunction) else slot_kinds(function)


def _parts(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Names in parts, each for a file."""
    return (names[i : i + _TOGETHER] for i in range(0, len(names), _TOGETHER))


def _headers(call: ClosedCall) -> set[str]:
    return {"failure.h", "interpreted.hpp", "threads.hpp", *headers_of(call.function)}


def _functions(calls: Mapping[str, ClosedCall], linkage: str) -> str:
    """A file with closed functions, and what calls them with slots."""
    shared = shared_by([call.function for call in calls.values()])
    headers = {s.header for s in shared}.union(*map(_headers, calls.values()))
    lines = [APART, *(f'#include "{h}"' for h in sorted(headers))]
    lines += ["", *(s.declaration for s in shared), "", "using namespace infuse;", ""]
    return "\n".join([*lines, *(_unit(call, name, linkage) for name, call in calls.items())])


def _hosted(functions: Sequence[HostFunction]) -> str:
    """A file with what calls functions of the host."""
    headers = {"program.hpp", "threads.hpp"}.union(*(f.needed() for f in functions))
    lines = [
        APART,
        *(f'#include "{h}"' for h in sorted(headers)),
        "",
        "using namespace infuse;",
        "",
    ]
    return "\n".join([*lines, *(f.unit(_HIDDEN) for f in functions)])


def _unit(call: ClosedCall, name: str, linkage: str) -> str:
    function = call.function
    head = ", ".join(["Context& c", *map(CLOSED.parameter_text, function.parameters)])
    body = "\n".join(f"  {line}" for line in CLOSED.body_of(function))
    taken = ", ".join(["c", *slot_texts(call)])
    return (
        f"static inline isize open_{name}(\n    {head}) {{\n  (void)c;\n{body}\n  return 0;\n}}\n"
        f"{linkage} isize {name}(Context& c, const Slot* a) {{\n"
        f"  (void)a;\n  return open_{name}({taken});\n}}\n"
    )


def slot_texts(call: ClosedCall) -> Iterator[str]:
    """What stands for each parameter, as the slots `a` have it."""
    slots = _slots()
    for parameter, argument in zip(call.function.parameters, call.arguments, strict=True):
        match parameter.kind:
            case "tensor":
                yield f"({CLOSED.pointer_type(parameter)}){next(slots)}.p"
            case "number":
                assert parameter.dtype is not None
                yield f"({CLOSED.scalar_type(parameter.dtype)}){next(slots)}.f"
            case "sizes":
                assert isinstance(argument, tuple)
                yield struct_text(
                    argument,
                    lambda _: f"(isize){next(slots)}.i",
                    lambda _: f"{next(slots)}.i != 0",
                )
            case "list":
                yield f"(const isize*){next(slots)}.p"
            case "found size":
                yield f"(isize*){next(slots)}.p"
            case "work":
                yield f"WorkCall{{(const WorkCode*){next(slots)}.p, (const Slot*){next(slots)}.p}}"
            case _:
                yield f"(isize){next(slots)}.i"


def slot_kinds(call: ClosedCall) -> str:
    """The kinds of its slots (kernels/program.hpp)."""
    body = "\n".join(CLOSED.body_of(call.function))
    results = {name: type for type, name in re.findall(r"Interpreted<(\w+)> \w+{(\w+)}", body)}
    kinds = {"tensor": "t", "number": "f", "list": "l", "found size": "o"}
    letters = []
    for parameter, text in zip(call.function.parameters, slot_texts(call), strict=True):
        if parameter.kind == "work":
            result = results.get(parameter.name, "void")
            letters.append(f"w{0 if result == 'void' else element_bytes(result)}")
        else:
            letters.append(kinds.get(parameter.kind, "i") * len(re.findall(r"a\[\d+\]", text)))
    return "".join(letters)


def _slots() -> Iterator[str]:
    number = 0
    while True:
        yield f"a[{number}]"
        number += 1


def _elements(functions: Sequence[ElementFunction]) -> str:
    """A file with functions of elements, which run over so many of them."""
    lines = [APART, '#include "element.hpp"', '#include "power.hpp"', ""]
    lines += ["using namespace infuse;", "", *map(_element, functions)]
    return "\n".join(lines)


def _element(function: ElementFunction) -> str:
    loads = [
        f"    const auto x{i} = load((const {type}*)in[{i}] + i, lanes);"
        for i, type in enumerate(function.takes)
    ]
    store = f"    store(({function.gives}*)out + i, ({function.gives})({function.text}), lanes);"
    parameters = "void* out, const void* const* in, isize n, bool* found_zero"
    if function.in_vectors:
        store = f"    store(({function.gives}*)out + i, {function.text}, lanes);"
        start, stop = "  sweep(0, n, [&](isize i, auto lanes) INFUSE_LAMBDA {", "  });"
        if "<L>" in function.text:
            loads.insert(0, "    using L = decltype(lanes);")
    else:
        start, stop = "#pragma GCC ivdep\n  for (isize i = 0; i < n; ++i) {", "  }"
        loads.insert(0, "    const One lanes{};")
    name = element_name(function)
    head = f"{_HIDDEN} void {name}({parameters}) {{"
    lines = [head, "  (void)found_zero;", start, *loads, store, stop, "}", ""]
    return "\n".join([*lines, *(_vector(function, name) if has_vector(function) else ())])


def has_vector(function: ElementFunction) -> bool:
    """Whether a function of elements is also one of vectors: it has to do with floats and masks."""
    types = {*function.takes, function.gives}
    return function.in_vectors and types <= {"float", "bool"} and len(function.takes) <= 3


def _vector(function: ElementFunction, name: str) -> list[str]:
    """The function of three vectors, masks as such; those that it does not take mean nothing."""
    masks = {"float": "y{0}", "bool": "as_int(y{0})"}
    taken = [f"  const auto x{i} = {masks[t].format(i)};" for i, t in enumerate(function.takes)]
    given = function.text if function.gives == "float" else f"as_float({function.text})"
    head = f"{_HIDDEN} vf {name}_vector(vf y0, vf y1, vf y2) {{"
    return [
        head,
        "  using L = Full; (void)y0, (void)y1, (void)y2;",
        *taken,
        f"  return {given};",
        "}\n",
    ]


def _table(
    functions: Mapping[str, str], elements: Mapping[str, ElementFunction], facts: str
) -> str:
    """A file with the table of all functions and the kinds of their slots, by which a program finds
    them.
    """
    vectors = {n: f"{n}_vector" for n, f in elements.items() if has_vector(f)}
    lines = ['#include "program.hpp"', '#include "simd.hpp"', "", "using namespace infuse;", ""]
    lines += [f"{_HIDDEN} isize {n}(Context&, const Slot*);" for n in functions]
    lines += [f"{_HIDDEN} void {n}(void*, const void* const*, isize, bool*);" for n in elements]
    lines += [f"{_HIDDEN} vf {n}(vf, vf, vf);" for n in vectors.values()]
    lines += ["", "namespace infuse {", "", "static const NamedFunction functions[] = {"]
    lines += [f'    {{"{n}\\0" "{kinds}", {n}}},' for n, kinds in functions.items()]
    lines += ['    {"\\0", nullptr}};', "static const NamedElement elements[] = {"]
    cast = "(void (*)())"
    for name, function in elements.items():
        widths = "".join(str(element_bytes(t)) for t in (*function.takes, function.gives))
        vector = f"{cast}{vectors[name]}" if name in vectors else "nullptr"
        lines.append(f'    {{"{name}\\0" "{widths}", {name}, {vector}}},')
    lines.append('    {"\\0", nullptr, nullptr}};')
    table = f"{{functions, {len(functions)}, elements, {len(elements)}}}"
    lines.append(f"extern const FunctionTable LIBRARY_TABLE = {table};")
    lines.append(f"extern const char* const LIBRARY_FACTS = {json.dumps(facts)};")
    return "\n".join([*lines, "", "}  // namespace infuse", ""])
