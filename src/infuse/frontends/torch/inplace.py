"""Operators that change a tensor in place, in programs that were not made functional."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from infuse.errors import UnsupportedOperatorError
from infuse.tracing.calls import words

_IN_PLACE: Final = re.compile(r"(aten\.[a-z]\w*?)_(\.\w+)")
_HINT: Final = "make the program functional: save `ep.run_decompositions({})`"
_VIEWS: Final = frozenset(
    words("""alias as_strided chunk contiguous detach diagonal dropout expand expand_as
        flatten movedim narrow numpy_T permute ravel reshape reshape_as select slice split
        split_with_sizes squeeze swapaxes t mT to transpose type_as unbind unflatten unfold
        unsqueeze view view_as broadcast_to tensor_split atleast_1d atleast_2d atleast_3d
        broadcast_tensors meshgrid lift_fresh positive real pad moveaxis swapdims hsplit
        vsplit dsplit feature_dropout mH adjoint squeeze""")
)
"""Operators whose result may share elements with their operand."""


def functional(target: str) -> str | None:
    """`aten.add.Tensor` for `aten.add_.Tensor`; None for what changes nothing in place."""
    match = _IN_PLACE.fullmatch(target)
    return match[1] + match[2] if match else None


class Sharing:
    """Which tensors of a graph may share elements, and where each is read for the last time."""

    def __init__(self, proto: Mapping[str, Any], short: Any) -> None:
        self._same: dict[str, str] = {}
        self._group: dict[str, str] = {}
        self._last: dict[str, int] = {}
        self._outside = {name for entry in proto["inputs"] for name in _names(entry)}
        for number, node in enumerate(proto["nodes"]):
            operands = [name for entry in node["inputs"] for name in _names(entry["arg"])]
            self._last.update(dict.fromkeys(operands, number))
            results = [name for entry in node["outputs"] for name in _names(entry)]
            kind = short(node["target"]).removeprefix("aten.").partition(".")[0]
            if operands and functional(short(node["target"])) is not None:
                self._same.update(dict.fromkeys(results, self._same.get(operands[0], operands[0])))
                kind = "view"
            if operands and kind in _VIEWS:
                for name in results:
                    self._group[name] = self._root(operands[0])
        end = len(proto["nodes"])
        for entry in proto["outputs"]:
            self._last.update(dict.fromkeys(_names(entry), end))

    def _root(self, name: str) -> str:
        return self._group.get(name, name)

    def changed(self, name: str, number: int) -> list[str]:
        """All names of this tensor, which call `number` changes. UnsupportedOperatorError where
        that changes others that are read later, or what lies outside the graph.
        """
        root, first = self._root(name), self._same.get(name, name)
        names = [first, *(other for other, same in self._same.items() if same == first)]
        if root in self._outside:
            raise UnsupportedOperatorError("it changes an input in place", hint=_HINT)
        for other, last in self._last.items():
            if other not in names and last > number and self._root(other) == root:
                raise UnsupportedOperatorError(
                    f"it changes {name!r} in place, whose elements {other!r} shares", hint=_HINT
                )
        return names


def _names(argument: Mapping[str, Any]) -> Iterator[str]:
    """Names of the tensors of an argument."""
    for kind, content in argument.items():
        if kind == "as_tensor":
            yield content["name"]
        elif kind == "as_optional_tensor" and "as_tensor" in content:
            yield content["as_tensor"]["name"]
        elif kind in ("as_tensors", "as_optional_tensors"):
            for entry in content:
                inner = entry.get("as_tensor", entry)
                if "name" in inner:
                    yield inner["name"]
        elif kind == "as_nested_tensors":
            for entries in content:
                yield from _names({"as_tensors": entries})
