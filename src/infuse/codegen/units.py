"""How generated code is cut into files: functions that call large kernels are compiled alone, so
that models with equal ones share an object, and so is what all kernels of a kind have in common.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from infuse.codegen.build import FUNCTION
from infuse.codegen.names import comment
from infuse.codegen.program import Function, Program, Step
from infuse.codegen.shared_files import APART, shared_by, shared_files
from infuse.options import PREFIX
from infuse.runtime.folder import SOURCE
from infuse.targets.cpu.emit.sizes import fields_in, symbol_field

SMALL: Final = "functions.cpp"
"""The file with the functions of a model that do not stand alone."""
_SMALL: Final = frozenset(
    [
        *("along.hpp", "axes.hpp", "cache.hpp", "copy.hpp", "element.hpp", "failure.hpp"),
        *(
            "half.hpp",
            "interleave.hpp",
            "lookup.hpp",
            "lowbit.hpp",
            "map.hpp",
            "narrow.hpp",
            "rows.hpp",
            "sizes.hpp",
        ),
    ]
)
"""Headers whose kernels, but for those that are shared, are compiled faster than a file of their
own.
"""


def stands_alone(function: Function) -> bool:
    """Whether a function is a file of its own."""
    return not function.is_control and not function.includes <= _SMALL


def content_name(function: Function, fields: str) -> str:
    """A name that only equal functions of equal sizes (C++ text of the struct's fields) have."""
    sizes = fields if fields_in(function.text()) else ""
    text = "\0".join((function.text(), sizes, *sorted(function.includes)))
    return f"{clean_name(function)}_{hashlib.blake2b(text.encode(), digest_size=6).hexdigest()}"


def clean_name(function: Function) -> str:
    """What a function is called after, as a part of a C identifier."""
    return "".join(c if c.isalnum() or c == "_" else "_" for c in function.name)[:40]


def all_sizes(programs: Sequence[Program]) -> list[str]:
    """The symbols of these programs, in the order in which the struct of sizes holds them."""
    return list(dict.fromkeys(s for p in programs for s in (*p.symbols, *p.late_sizes)))


@dataclass(frozen=True)
class Functions:
    """The different functions that steps of programs call, and their names by text. `apart`: those
    that stand alone are files of their own, the others one file.
    """

    programs: Sequence[Program]
    all: list[Function]
    names: Mapping[str, str]
    apart: bool
    prefix: str

    @property
    def controls(self) -> list[Function]:
        """Those that run bodies of control flow."""
        return [f for f in self.all if f.is_control]

    @property
    def outer(self) -> list[Function]:
        """Those that are files of their own."""
        return [f for f in self.all if self._is_outer(f)]

    @property
    def inner(self) -> list[Function]:
        """The others."""
        return [f for f in self.all if not f.is_control and not self._is_outer(f)]

    @property
    def in_main(self) -> list[Function]:
        """Those of the main file, besides those that run bodies."""
        return [] if self.apart else self.inner

    def _is_outer(self, function: Function) -> bool:
        return self.apart and stands_alone(function)

    def text(self) -> list[str]:
        """What the main file says of all but those that run bodies."""
        heads = [f"{head(f, self.names[f.text()])};" for f in self.inner]
        outer = [f"{self._head(f)};" for f in self.outer]
        return [*heads, *outer, "", *self._definitions(self.in_main)]

    def _definitions(self, functions: Sequence[Function]) -> list[str]:
        return [define(f, self.names[f.text()]) for f in functions]

    def files(self, main: str) -> dict[str, str]:
        """Names and texts of all files, those that take long to compile first."""
        if not self.apart:
            return {SOURCE: main}
        texts = {f"{self.names[f.text()]}.cpp": self._unit(f) for f in self.outer}
        if self.inner:
            shared = shared_by(self.inner)
            start = preamble(
                self.programs,
                self.inner,
                more=[s.header for s in shared],
                prefix=self.prefix,
                declared=[s.declaration for s in shared],
            )
            parts = [APART, start, *self._definitions(self.inner), end(self.prefix)]
            texts[SMALL] = "\n".join(parts)
        shared = shared_by([*self.outer, *self.inner])
        return {SOURCE: f"{APART}\n{main}", **shared_files(shared), **texts}

    def _head(self, function: Function) -> str:
        return f'extern "C" {head(function, self.names[function.text()])}'

    def _unit(self, function: Function) -> str:
        """A file with one function, which equal functions of other models have, too."""
        shared = shared_by([function])
        needed = {"threads.hpp", "element.hpp", *(s.header for s in shared)}
        headers = sorted(needed | function.includes)
        sizes = size_fields(self.programs) if fields_in(function.text()) else None
        lines = [f"{FUNCTION}{APART}"]
        lines += [f'#include "{h}"' for h in headers]
        lines += ["", *(s.declaration for s in shared)]
        lines += ["", "using namespace infuse;", "", f"namespace {PREFIX}_model {{", ""]
        if sizes is None:
            lines += ["struct Sizes;", ""]
        else:
            once = ["#ifndef INFUSE_SIZES", "#define INFUSE_SIZES"]
            lines += [*once, sizes_struct(sizes), "#endif", ""]
        name = self.names[function.text()]
        weak = f'extern "C" __attribute__((weak)) {define(function, name)}'
        return "\n".join([*lines, weak, end()])


def distinct(
    steps: Iterable[Step],
    programs: Sequence[Program],
    apart: bool = False,
    prefix: str = PREFIX,
) -> Functions:
    """The different functions that steps of these programs call."""
    names: dict[str, str] = {}
    functions = []
    for step in steps:
        function, text = step.function, step.function.text()
        if text in names:
            continue
        functions.append(function)
        if apart and stands_alone(function):
            names[text] = content_name(function, size_fields(programs))
        else:
            names[text] = f"{clean_name(function)}_{len(names)}"
    return Functions(programs, functions, names, apart, prefix)


def size_fields(programs: Sequence[Program]) -> str:
    """The fields of the struct of sizes."""
    return " ".join(f"long {symbol_field(s)};" for s in all_sizes(programs))


def sizes_struct(fields: str) -> str:
    """The struct of sizes."""
    return f"struct Sizes {{ {fields} }};  // the symbolic dimensions"


def preamble(
    programs: Sequence[Program],
    functions: list[Function],
    planning: bool = False,
    more: Sequence[str] = (),
    prefix: str = PREFIX,
    declared: Sequence[str] = (),
) -> str:
    """The start of a file with these functions; `planning`: of the one that also plans memory;
    `declared`: what it declares behind the headers.

    The namespace that it opens, which `end` closes, has a name of its own for each `prefix`.
    """
    headers = {"threads.hpp", "element.hpp", *more}.union(*(f.includes for f in functions))
    if planning:
        headers |= {"arena.hpp", "blocks.hpp", "failure.hpp"}.union(
            *(p.call_includes for p in programs)
        )
        headers |= set().union(
            *(s.function.includes for p in programs for s in p.steps if s.function.is_control)
        )
    what = f"Model {comment(programs[0].name)}" if planning else "Functions of a model"
    lines = [f"// {what}, generated by Infuse."]
    lines += [f'#include "{h}"' for h in sorted(headers)]
    if planning:
        lines += ['#include "model.h"', "#include <stdio.h>", "#include <stdlib.h>"]
    lines += ["", *declared, "using namespace infuse;", "", f"namespace {prefix}_model {{", ""]
    lines.append(sizes_struct(size_fields(programs)))
    lines.append("")
    return "\n".join(lines)


def end(prefix: str = PREFIX) -> str:
    """The end of a file that begins with a `preamble`."""
    return f"}}  // namespace {prefix}_model\n"


def head(function: Function, name: str) -> str:
    """The declaration of a function."""
    context = ["Model& m"] if function.is_control else ["Context& c", "const Sizes& d"]
    parameters = ", ".join([*context, *function.parameters])
    return f'__attribute__((visibility("hidden"))) int {name}({parameters})'


def define(function: Function, name: str) -> str:
    """The definition of a function."""
    body = "\n".join(f"  {line}" for line in function.lines)
    start = "Sizes& d = m.d;\n  (void)d;" if function.is_control else "(void)d, (void)c;"
    return f"{head(function, name)} {{\n  {start}\n{body}\n  return 0;\n}}\n"
