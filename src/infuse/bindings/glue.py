"""`binding.h`: what packages of all languages share, as C that is C++, too."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from infuse.bindings.interface import Interface, Tensor
from infuse.bindings.names import c_literal, shown
from infuse.bindings.templates import filled
from infuse.ir import dim_text, dims
from infuse.runtime.folder import WEIGHTS, may_refuse
from infuse.targets.text.names import prefixed

_PART: Final = 1 << 20
"""Words of weights that are summed at once."""
_ATOMS: Final = ("div", "mod", "max", "min", "broadcast")


def glue(interface: Interface) -> str:
    """The text of `binding.h`."""
    prefix = interface.prefix
    sizes = _Sizes(interface)
    ranks = [each.rank for each in interface.results]
    fields = {
        "P": prefix,
        "GUARD": f"{prefix.upper()}_BINDING_H",
        "ID": str(interface.id),
        "WORDS": str(interface.words),
        "SYMBOLS_AT": str(interface.symbols_at),
        "SIZES_AT": str(interface.sizes_at),
        "INPUTS_AT": str(interface.inputs_at),
        "RESULTS_AT": str(interface.results_at),
        "INPUTS": str(len(interface.inputs)),
        "RESULTS": str(len(interface.results)),
        "INPUT_ROOM": str(max(1, len(interface.inputs))),
        "RESULT_ROOM": str(max(1, len(interface.results))),
        "MOST_RANK": str(max([1, *ranks])),
        "FORMULAS": sizes.formulas,
        "SIZES": sizes.checks,
        "SHAPES": sizes.shapes,
        "WEIGHTS_BYTES": f"INT64_C({interface.weights_bytes})",
        "WEIGHTS_SUM": str(_sum(interface)),
        "IDENTITY": _identity(interface.metadata),
        "REFUSAL": _refusal(interface.metadata),
        "RANKS": "\n".join(map(_rank, interface.results)),
        "LISTS": "\n".join(map(_list, interface.results)),
    }
    return prefixed(filled("binding.h", fields), prefix)


def _sum(interface: Interface) -> int:
    """What `binding_sum` of the header gives for the weights."""
    if not interface.weights_bytes:
        return 0
    content = np.memmap(interface.folder / WEIGHTS, np.uint8, "r")
    words = content[: len(content) // 8 * 8].view("<u8")
    total = 0
    for start in range(0, len(words), _PART):
        part = words[start : start + _PART]
        odd = 2 * np.arange(start, start + len(part), dtype=np.uint64) + np.uint64(1)
        total += int((part * odd).sum(dtype=np.uint64))
    return total % 2**64


def _identity(metadata: dict[str, Any]) -> str:
    """Parts of the metadata of the model's library, as literals."""
    texts = [
        f'"{key}":{json.dumps(metadata[key], separators=(",", ":"))}'
        for key in ("inputs", "outputs", "symbols", "weights_hash")
        if key in metadata
    ]
    return ",\n".join(f"      ({_long_literal(text)})" for text in texts) or '""'


def _long_literal(text: str) -> str:
    """A literal of several parts, as C has a limit for one."""
    parts = (text[i : i + 100] for i in range(0, len(text), 100))
    return "\n      ".join(map(c_literal, parts))


def _refusal(metadata: dict[str, Any]) -> str:
    """The text for a code of infuse_create; a library with tile registers knows more."""
    text = "infuse_status(code)"
    return f"code == INFUSE_REFUSED ? infuse_error(NULL) : {text}" if may_refuse(metadata) else text


def _rank(result: Tensor) -> str:
    if result.lists is None:
        return f"    case {result.number}: return {result.rank};"
    return (
        f"    case {result.number}:\n"
        f"      return infuse_output(context, {result.lists}, sizes) ? sizes[0] : -1;"
    )


def _list(result: Tensor) -> str:
    if result.lists is None:
        return f"    case {result.number}: break;"
    return (
        f"    case {result.number}: list = infuse_output(context, {result.lists}, ignored); break;"
    )


class _Sizes:
    """Statements of C that check what a frame says of inputs and find the values of symbols.

    Symbols that are a size come first, then formulas in an order in which each has at most one
    symbol that is not known yet, in which it is linear.
    """

    def __init__(self, interface: Interface) -> None:
        self._prefix, self._symbols = interface.prefix, interface.symbols
        self._variables = {name: f"s[{i}]" for i, name in enumerate(interface.symbols)}
        self._numbers: dict[str, int] = {}
        self._formulas: list[str] = []
        self._checks: list[str] = []
        self._origins: dict[str, Tensor] = {}
        waiting: list[tuple[Tensor, int]] = []
        for each in interface.inputs:
            self._described(each)
            for axis, size in enumerate(each.sizes):
                if isinstance(size, int):
                    continue
                if each.shape[axis] in interface.symbols:
                    self._symbol(each, axis, str(each.shape[axis]))
                else:
                    waiting.append((each, axis))
        self._solve(waiting)
        self.checks = "\n".join(self._checks)
        self.shapes = "\n".join(line for each in interface.inputs for line in self._shape(each))
        self.formulas = "\n".join(self._formulas)

    def _described(self, tensor: Tensor) -> None:
        fixed = [str(size) if isinstance(size, int) else "-1" for size in tensor.sizes]
        number = tensor.number
        described = f"{c_literal(tensor.name)}, fixed_{number}, {tensor.rank}"
        self._checks += [
            f"  /* {shown(tensor.name)}: {shown(tensor.signature)} */",
            f"  static const int64_t fixed_{number}[] = {{{', '.join(fixed) or '0'}}};",
            f"  if ({self._prefix}_described(frame + {tensor.offset}, {described},",
            f"      {int(tensor.optional)}, text)) return 1;",
        ]

    def _symbol(self, tensor: Tensor, axis: int, symbol: str) -> None:
        variable, size = self._variables[symbol], f"frame[{tensor.offset + 2 + axis}]"
        if symbol not in self._origins:
            self._origins[symbol] = tensor
            self._checks.append(f"  {variable} = {size};")
            return
        first = c_literal(self._origins[symbol].name)
        self._refuse(
            f"{size} != {variable}",
            tensor,
            axis,
            "which is not %s = %lld of the input %s",
            f"{c_literal(symbol)}, (long long){variable}, {first}",
        )

    def _refuse(self, test: str, tensor: Tensor, axis: int, why: str, values: str) -> None:
        size = f"(long long)frame[{tensor.offset + 2 + axis}]"
        self._checks += [
            f"  if ({test})",
            f"    return {self._prefix}_binding_fail(",
            f'        text, "the input %s has size %lld at axis {axis}, {why}",',
            f"        {c_literal(tensor.name)}, {size}, {values});",
        ]

    def _solve(self, waiting: list[tuple[Tensor, int]]) -> None:
        while waiting:
            later = []
            for tensor, axis in waiting:
                names = sorted(dims.symbols(tensor.sizes[axis]))
                unknown = [name for name in names if name not in self._origins]
                if len(unknown) > 1:
                    later.append((tensor, axis))
                    continue
                self._formula(tensor, axis, unknown)
            if len(later) == len(waiting):
                self._unsolved(later[0])
                return
            waiting = later

    def _formula(self, tensor: Tensor, axis: int, unknown: Sequence[str]) -> None:
        number = self._function(tensor.sizes[axis])
        size, text = f"frame[{tensor.offset + 2 + axis}]", c_literal(str(tensor.shape[axis]))
        if unknown:
            self._origins[unknown[0]] = tensor
            variable = self._symbols.index(unknown[0])
            test = f"!{self._prefix}_solved({self._prefix}_size_{number}, s, {variable}, {size})"
            self._refuse(test, tensor, axis, "which is not %s for any size", text)
            return
        test = f"!{self._prefix}_is({self._prefix}_size_{number}, s, {size})"
        names = sorted(dims.symbols(tensor.sizes[axis]))
        values = ", ".join(f"{c_literal(n)}, (long long){self._variables[n]}" for n in names)
        why = f"which is not %s with {', '.join(['%s = %lld'] * len(names))}"
        self._refuse(test, tensor, axis, why, f"{text}, {values}")

    def _unsolved(self, first: tuple[Tensor, int]) -> None:
        tensor, axis = first
        names = c_literal(", ".join(sorted(dims.symbols(tensor.sizes[axis]))))
        self._refuse("1", tensor, axis, "and sizes do not tell the values of %s", names)

    def _function(self, size: dims.Dim) -> int:
        """The number of the function that computes a formula."""
        exact = self._text(size, "size", "LL")
        number = self._numbers.setdefault(exact, len(self._numbers))
        if number == len(self._numbers) - 1 and f"_size_{number}(" not in "".join(self._formulas):
            p = self._prefix
            about = self._text(size, "about", ".0", lambda variable: f"(double){variable}")
            self._formulas.append(
                ("" if number else _SOLVER.replace("@P@", p))
                + f"static inline int {p}_size_{number}(const int64_t* s, int64_t* value) {{\n"
                f"  const double about = {about};\n"
                f"  if (!(about > -{p}_BINDING_MOST && about < {p}_BINDING_MOST)) return 0;\n"
                f"  *value = {exact};\n  return 1;\n}}\n"
            )
        return number

    def _text(
        self,
        size: dims.Dim,
        kind: str,
        suffix: str,
        cast: Callable[[str], str] = lambda variable: variable,
    ) -> str:
        functions = {name: f"{self._prefix}_{kind}_{name}" for name in _ATOMS}
        return dim_text.c_text(
            size, lambda name: cast(self._variables[name]), suffix, functions=functions
        )

    def _shape(self, tensor: Tensor) -> list[str]:
        at = tensor.offset
        lines = [f"  frame[{at + 1}] = {tensor.rank};", f"  frame[{at}] = 1;"]
        for axis, size in enumerate(tensor.sizes):
            variable = f"frame[{at + 2 + axis}]"
            if isinstance(size, int):
                lines.append(f"  {variable} = {size};")
            elif tensor.shape[axis] in self._symbols:
                lines.append(f"  {variable} = {self._variables[str(tensor.shape[axis])]};")
            else:
                lines += [
                    f"  if (!{self._prefix}_size_{self._function(size)}(s, &value))",
                    f'    return {self._prefix}_binding_fail(text, "%s", "a size is too large");',
                    f"  {variable} = value;",
                ]
            lines.append(f"  frame[{at}] *= {variable};")
        return lines


_SOLVER: Final = """
/* Whether a size has the value of its formula. */
static inline int @P@_is(int (*formula)(const int64_t*, int64_t*), const int64_t* s, int64_t size) {
  int64_t value;
  return formula(s, &value) && value == size;
}

/* Finds the symbol for which a formula that is linear in it has this value. */
static inline int @P@_solved(int (*formula)(const int64_t*, int64_t*), int64_t* s, int variable,
                             int64_t size) {
  int64_t zero, one;
  s[variable] = 0;
  if (!formula(s, &zero)) return 0;
  s[variable] = 1;
  if (!formula(s, &one) || one == zero) return 0;
  s[variable] = (size - zero) / (one - zero);
  return s[variable] >= 0 && @P@_is(formula, s, size);
}

"""
