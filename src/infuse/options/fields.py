"""Options as frozen classes whose fields say what they mean and what they take: flags of the
command line, configuration files, session options and pages of documentation are made from them.
"""

from __future__ import annotations

import math
import operator
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from infuse.errors import OptionError

T = TypeVar("T")
N = TypeVar("N", int, float)
_KEY = "infuse"
_SHOWN = 60
_KINDS = {int: "a whole number", float: "a number", bool: "True or False", str: "a text"}


@dataclass(frozen=True)
class About:
    """What a field is for, and how it is written elsewhere."""

    text: str
    flag: str = ""
    """The option of a command, where it is called otherwise than the field: `--prune-goal`."""
    metavar: str = ""
    """What stands for a value in help."""
    choices: tuple[str, ...] = ()
    """The only texts that it may be."""
    least: float | None = None
    """The smallest number that it may be."""
    most: float | None = None
    """The largest number that it may be."""
    excluded: bool = False
    """Whether `least` itself is too small."""
    form: str = ""
    """How a text for it is read, where the text is not the value itself: `archive`, `archives` and
    `array` are files of arrays, `names`, `values`, `texts`, `sizes` and `specs` lists, `metric` a
    name or a function of a file; `object` has no text.
    """
    nothing: str = ""
    """The word for the empty text among the choices."""
    noun: str = ""
    """What one of the choices is called, where that is not the name of the field."""


def option(
    default: Any,
    text: str,
    *,
    flag: str = "",
    metavar: str = "",
    choices: Sequence[str] = (),
    least: float | None = None,
    most: float | None = None,
    excluded: bool = False,
    form: str = "",
    nothing: str = "",
    noun: str = "",
    compare: bool = True,
) -> Any:
    """A field of an options class, with what it is for (see `About`)."""
    about = About(text, flag, metavar, tuple(choices), least, most, excluded, form, nothing, noun)
    return field(default=default, compare=compare, metadata={_KEY: about})


@dataclass(frozen=True)
class OptionField:
    """A documented field of an options class."""

    name: str
    default: Any
    about: About
    hint: Any
    """Its annotation."""

    @property
    def flag(self) -> str:
        """The option of a command that sets it."""
        return self.about.flag or "--" + self.name.replace("_", "-")


_FIELDS: dict[type, tuple[OptionField, ...]] = {}


def fields_of(kind: type) -> tuple[OptionField, ...]:
    """The documented fields of an options class, in order."""
    if kind not in _FIELDS:
        hints = get_type_hints(kind)
        _FIELDS[kind] = tuple(
            OptionField(each.name, each.default, each.metadata[_KEY], hints[each.name])
            for each in fields(kind)
            if _KEY in each.metadata
        )
    return _FIELDS[kind]


def nested(each: OptionField) -> type[Checked] | None:
    """The options that a field may be, whose fields go with it."""
    kinds = get_args(each.hint)
    return next((k for k in kinds if isinstance(k, type) and issubclass(k, Checked)), None)


def flat_fields(kind: type) -> list[OptionField]:
    """All fields, with those of options that fields may be."""
    every = []
    for each in fields_of(kind):
        inner = nested(each)
        every += [each, *(flat_fields(inner) if inner else ())]
    return every


class Checked:
    """The base of options: each field is held against its type and its limits when an object is
    made. OptionError for anything else.
    """

    def __post_init__(self) -> None:
        for each in fields_of(type(self)):
            value = _number_of(getattr(self, each.name), each.hint)
            object.__setattr__(self, each.name, value)
            check(each, value)

    def __repr__(self) -> str:
        return shown(self)

    def require_no(self, verb: str, *names: str) -> None:
        """OptionError where one of these fields is given, which a verb has no use for."""
        usual = {each.name: each.default for each in fields_of(type(self))}
        for name in names:
            if getattr(self, name) is not usual[name]:
                raise refusal(name, f"has no use in {verb}", "leave it out")

    def require_only(self, verb: str, *names: str) -> None:
        """The same of all fields but these."""
        others = [each.name for each in fields_of(type(self)) if each.name not in names]
        self.require_no(verb, *others)


def _number_of(value: Any, hint: Any) -> Any:
    """The number of Python that a scalar of an array library is, for a field that takes numbers."""
    if not {int, float, bool} & set(_kinds_of(hint)) or getattr(value, "shape", None) != ():
        return value
    return value.item()


def _written(options: Any) -> Iterator[str]:
    """The fields that are not as they are by default, as they are written in Python."""
    for each in fields(options):
        value = getattr(options, each.name)
        if value is not each.default and not (_is_plain(value) and value == each.default):
            yield f"{each.name}={shown(value)}"


def shown(value: Any) -> str:
    """A value as it is written in Python, where that is short; else …."""
    if isinstance(value, frozenset):
        value = tuple(sorted(value))
    if isinstance(value, list | tuple) and len(value) == 1 and isinstance(value[0], Checked):
        return shown(value[0])
    if isinstance(value, list | tuple) and len(value) > 1:
        return f"({', '.join(map(shown, value))})"
    if is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}({', '.join(_written(value))})"
    text = repr(value) if _is_plain(value) else "…"
    return text if len(text) <= _SHOWN else "…"


def _is_plain(value: Any) -> bool:
    if isinstance(value, frozenset | tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)


def require(name: str, value: Any, hint: Any, said: str = "") -> None:
    """OptionError unless an argument is of a type as it is annotated, which `said` has in words."""
    if not _fits(_number_of(value, hint), hint):
        raise refusal(name, f"is {_short(value)}", f"it is {said or _kinds(hint)}")


def refusal(field: str, what: str, hint: str) -> OptionError:
    """An error about a field, whose name `what` goes on from."""
    error = OptionError(f"{field} {what}", hint=hint)
    error.field = field
    return error


def check(each: OptionField, value: Any) -> None:
    """OptionError unless a field may have this value."""
    if not _fits(value, each.hint):
        kinds = _kinds(each.hint)
        raise refusal(
            each.name, f"is {_short(value)}", f"it is {kinds}" if kinds else each.about.text
        )
    about = each.about
    if isinstance(value, str) and about.choices and value not in about.choices:
        raise OptionError(
            f"there is no {about.noun or each.name} {value!r}",
            hint=f"one of: {', '.join(filter(None, about.choices))}",
        )
    if not isinstance(value, bool) and isinstance(value, int | float):
        _check_limits(each, value)


def _check_limits(each: OptionField, value: float) -> None:
    least, most = each.about.least, each.about.most
    if most is not None and value > most:
        raise refusal(each.name, f"is {value}", f"it is at most {most:g}")
    if least is None:
        return
    low = value <= least if each.about.excluded else value < least
    if low or not math.isfinite(value):
        bound = "more than" if each.about.excluded else "at least"
        what = "" if low else "a finite number, "
        raise refusal(each.name, f"is {value}", f"it is {what}{bound} {least:g}")


def numbers(field: str, value: Any) -> tuple[float, ...]:
    """Positive numbers, each once: those of a text with commas between, or of a sequence.
    OptionError for anything else, and for none.
    """
    return _listed(field, value, "positive numbers", "1,2,4", float)


def whole_sizes(field: str, value: Any) -> tuple[int, ...]:
    """The same of positive whole numbers."""
    return _listed(field, value, "sizes", "1,2,4,8", int)


def _listed(
    field: str, value: Any, what: str, example: str, kind: Callable[[Any], N]
) -> tuple[N, ...]:
    parts = value.split(",") if isinstance(value, str) else value
    try:
        result = [kind(each) for each in parts]
    except (TypeError, ValueError, OverflowError):
        result = []
    is_exact = isinstance(value, str) or result == list(parts)
    if not result or not is_exact or not all(0 < number < math.inf for number in result):
        raise refusal(field, f"{value!r} is not a list of {what}", f"write it as {example}")
    return tuple(dict.fromkeys(result))


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"of the type {type(value).__name__}"


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type as it is annotated. What stands in mappings is not looked at."""
    return any(_is_a(value, kind) for kind in _kinds_of(hint))


def _kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation admits."""
    return get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)


def _is_a(value: Any, kind: Any) -> bool:
    if kind is None or kind is type(None):
        return value is None
    if kind is Any:
        return True
    if kind in (int, float):
        return not isinstance(value, bool) and _is_number(value, kind)
    origin = get_origin(kind) or kind
    if origin in (Sequence, Mapping) and isinstance(value, str | bytes):
        return False
    if origin is Sequence and isinstance(value, list | tuple):
        return all(_fits(each, get_args(kind)[0]) for each in value)
    return not isinstance(origin, type) or isinstance(value, origin)


def _is_number(value: Any, kind: type) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return kind is float and isinstance(value, float)
    return True


def _kinds(hint: Any) -> str:
    """The simple types of an annotation in words; empty where there are others."""
    words = ["None" if kind is type(None) else _KINDS.get(kind, "") for kind in _kinds_of(hint)]
    return " or ".join(words) if all(words) else ""


def summary_of(kind: type) -> str:
    """The first paragraph of the docstring of an options class."""
    return " ".join((kind.__doc__ or "").split("\n\n")[0].split())


def documented(kind: type[T]) -> type[T]:
    """The class itself, whose docstring lists its fields, and whose objects are written as they are
    made.
    """
    kind.__repr__ = Checked.__repr__  # type: ignore[assignment]
    listed = [
        f"    {each.name}: {each.metadata[_KEY].text}"
        for each in fields(kind)  # type: ignore[arg-type]
        if _KEY in each.metadata
    ]
    kind.__doc__ = "\n".join([(kind.__doc__ or "").rstrip(), "", *listed])
    return kind
