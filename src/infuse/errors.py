"""Every error that Infuse raises on purpose: one root, one leaf per kind of trouble.

A message is one paragraph: where it happened, what is wrong, what to do, and a code that stays the
same over releases. Exceptions of lower libraries are mapped to one of these where they enter
Infuse.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

_LONGEST_NAME = 256
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_MOST_WORDS = 0.5
"""The part of a name's words that others must have to be meant."""
_GUESSES, _AS_LIKE = 2, 0.9
"""Names that are offered at most, and how like a second one must be, of the likeness of the first.
"""
_CODE = re.compile(r"\[INF-\d{3}\] ?")


class InfuseError(Exception):
    """The root of all errors of Infuse.

    `what` is a statement of what is wrong, `where` the place (file, node, pass …), `hint` what the
    user can do. Text of another error in `what` loses its code: a message has one, in front.
    """

    code: ClassVar[str] = "INF-000"

    def __init__(self, what: str, *, where: str | None = None, hint: str | None = None) -> None:
        super().__init__(what)
        self.what = _CODE.sub("", what)
        self.where = where
        self.hint = hint

    def within(self, place: str) -> None:
        """Add an outer place in front of `where`; for callers that know more, who then re-raise."""
        self.where = place if self.where is None else f"{place}: {self.where}"

    def rename(self, text: str, name: str) -> None:
        """Write `name` for `text` in all that the error says."""
        self.what = self.what.replace(text, name)
        self.where = self.where and self.where.replace(text, name)
        self.hint = self.hint and self.hint.replace(text, name)

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        advice = f" Hint: {_sentence(self.hint)}" if self.hint else ""
        return f"[{self.code}] {place}{_sentence(self.what)}{advice}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_restore, (type(self), self.what, self.where, self.hint))


class ModelFileError(InfuseError):
    """A model file cannot be read: missing, cut off, not the format it claims, or inconsistent in
    itself.
    """

    code = "INF-101"


class UnsupportedOperatorError(InfuseError):
    """A model uses an operator, a version of it or an attribute that is not known here.

    `serial` is the number of the node of the outermost graph, where it is known.
    """

    code = "INF-102"
    serial: int | None = None


class BudgetError(InfuseError):
    """A model needs more nodes, terms, work, memory or time before it runs than is allowed; the
    limit can be raised.
    """

    code = "INF-103"


class GraphError(InfuseError):
    """A graph is not well formed: a cycle, a value used before it is made, a wrong number of
    inputs.
    """

    code = "INF-201"


class ShapeError(InfuseError):
    """Shapes do not fit together, or a shape is not one that the operator accepts."""

    code = "INF-202"


class TypeMismatchError(InfuseError):
    """Element types do not fit together, or a type is not one that the operator accepts."""

    code = "INF-203"


class RuleError(InfuseError):
    """A rewrite rule or a pass is not well formed, unknown, or broke its contract."""

    code = "INF-301"


class VerificationError(InfuseError):
    """A changed model does not compute what the original computes."""

    code = "INF-302"


class ToolchainError(InfuseError):
    """There is no usable C++ compiler, or it cannot build for the wanted target."""

    code = "INF-401"


class CompileError(InfuseError):
    """The C++ compiler rejected generated code, or died."""

    code = "INF-402"


class CacheError(InfuseError):
    """The cache of compiled models cannot be used: not writable, disk full, or not safe to load
    from.
    """

    code = "INF-403"


class CompiledModelError(InfuseError):
    """A compiled model folder is broken, incomplete, or was built for another release or
    machine.
    """

    code = "INF-501"


class InputError(InfuseError):
    """The arrays given to a model are not what it takes: name, element type, rank or size."""

    code = "INF-502"


class RuntimeFailure(InfuseError):
    """A compiled model failed while it ran: out of memory, an index out of range."""

    code = "INF-503"


class DataError(RuntimeFailure):
    """A run failed of the elements that it was given: an index outside, a division by zero, sizes
    that cannot be.
    """

    code = "INF-504"


class CancelledError(RuntimeFailure):
    """A run was ended by another thread (`infuse.Cancellation`)."""

    code = "INF-505"


class OptionError(InfuseError):
    """An argument, a command-line option or an environment variable has no meaning here.

    `field` is the field of an options class that is meant, with whose name `what` begins.
    """

    code = "INF-601"
    field: str = ""


class ConfigurationError(InfuseError):
    """A configuration of the server or of a model has a field or a value that has no meaning
    here.
    """

    code = "INF-701"


class RepositoryError(InfuseError):
    """A model repository or a model in it cannot be read, is incomplete, or is not what its hashes
    say.

    `transient`: a later try may succeed by itself (a fault of the network, a file that was just
    being replaced).
    """

    code = "INF-702"
    transient: bool = False


class RequestError(InfuseError):
    """A request to the server is not one of the protocol, or not one that the model takes."""

    code = "INF-703"


class NotFoundError(InfuseError):
    """The model, version, label or address that a request names is not there."""

    code = "INF-704"


class UnavailableError(InfuseError):
    """What a request names is there, but does not serve now: it loads, drains, or its worker is
    gone.
    """

    code = "INF-705"


class OverloadError(InfuseError):
    """The server takes no more work of this kind now; `retry_after` is when to try again, in
    seconds.
    """

    code = "INF-706"
    retry_after: float = 1.0


class DeadlineError(InfuseError):
    """A request was not answered within the time that it allowed; what was left of its work was
    dropped.
    """

    code = "INF-707"


class ModelFailureError(InfuseError):
    """A model failed in its worker: it crashed, hung, ran out of memory, or gave what it must not
    give.
    """

    code = "INF-708"


class AccessError(InfuseError):
    """A request lacks a valid token (`known` is false), or its token does not allow what it asks
    for.
    """

    code = "INF-709"
    known: bool = False


class TooLargeError(InfuseError):
    """A request is larger than the server takes, as it came or after decompression."""

    code = "INF-710"


class UnsupportedRequestError(InfuseError):
    """A call of the protocol that this server does not have."""

    code = "INF-711"


def _sentence(text: str) -> str:
    """`text` with one mark at its end."""
    text = text.rstrip()
    return text if text.endswith((".", "!", "?", ":")) else f"{text}."


def _restore(
    kind: type[InfuseError], what: str, where: str | None, hint: str | None
) -> InfuseError:
    return kind(what, where=where, hint=hint)


class ContractError(InfuseError):
    """A model cannot be compressed within the loss that is allowed, or not in the time.

    `best` is the graph that came nearest, `report` says what it loses and what was tried.
    """

    code = "INF-801"
    best: Any = None
    report: Any = None


def did_you_mean(
    name: str, names: Iterable[str], *, otherwise: str = "", likeness: float = 0.6
) -> str:
    """A hint for a name that is none of `names`: those that have all of its words, else the one
    whose letters are most like it, else the ones that have most of its words, else `otherwise`.

    `likeness`: from 0 (nothing in common) to 1 (equal but for case), as `difflib` counts it. Names
    of more than 256 characters are like no other.
    """
    if len(name) > _LONGEST_NAME:
        return otherwise
    import difflib

    listed = sorted(names)
    lower = {each.lower(): each for each in listed}
    by_letters = difflib.get_close_matches(name.lower(), lower, 1, cutoff=likeness)
    part, by_words = _with_words(name, listed)
    if part < 1 and by_letters:
        by_words = [lower[by_letters[0]]]
    elif part < _MOST_WORDS:
        return otherwise
    ratios = {
        each: difflib.SequenceMatcher(None, name.lower(), each.lower()).ratio() for each in by_words
    }
    nearest = sorted(ratios, key=lambda each: (-ratios[each], each))[:_GUESSES]
    offered = [each for each in nearest if ratios[each] > _AS_LIKE * ratios[nearest[0]]]
    return f"did you mean {' or '.join(map(repr, offered))}?"


def _with_words(name: str, names: Sequence[str]) -> tuple[float, list[str]]:
    """Which part of the words of a name others have, rare words counting more, and those that have
    most of them. A word that begins another one counts as that (`Norm`, `Normalization`).
    """
    asked = _words(name)
    having = {word: {each for each in names if _has(each, word)} for word in asked}
    weights = {
        word: math.log((len(names) + 1) / (len(those) + 1)) + 1e-9 for word, those in having.items()
    }
    whole = sum(weights.values())
    if not whole:
        return 0.0, []
    parts = {
        each: sum(weight for word, weight in weights.items() if each in having[word])
        for each in set().union(*having.values())
    }
    most = max(parts.values(), default=0.0)
    return most / whole, [each for each, part in parts.items() if part == most]


def _words(name: str) -> list[str]:
    """The words of at least three letters that a name is written of."""
    return [word.lower() for word in _WORD.findall(name) if len(word) > 2]


def _has(name: str, word: str) -> bool:
    return any(own.startswith(word) for own in _words(name))
