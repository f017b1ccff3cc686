"""Flags of commands that are made from the fields of options classes.

A command takes an object of options where its parameter is annotated as such; on the command line
that is a flag for each field. `Annotated[CompileOptions, Without("prefix")]` leaves some out.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from keyword import iskeyword
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from infuse.data.arrays import read_array, read_data, read_inputs_of
from infuse.data.metrics import read_metric
from infuse.errors import OptionError
from infuse.options.fields import Checked, OptionField, fields_of, nested
from infuse.options.texts import described, dims, names, values

READERS: Mapping[str, tuple[Any, Callable[[Any, str], Any]]] = {
    "archive": (Path, read_inputs_of),
    "archives": (list[Path], read_data),
    "array": (Path, read_array),
    "metric": (str, read_metric),
    "names": (list[str], names),
    "sizes": (list[str], dims),
    "specs": (list[str], described),
    "texts": (list[str], lambda texts, flag: tuple(texts)),
    "values": (list[str], values),
}
"""For each form of text what the command line gives, and what reads it, by the name of the flag."""


class Only:
    """The only fields of a class that are flags of a command."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def takes(self, name: str) -> bool:
        """Whether a field is a flag."""
        return name in self.names


class Without(Only):
    """The fields of a class that are no flags of a command."""

    def takes(self, name: str) -> bool:
        """Whether a field is a flag."""
        return name not in self.names


class Flag:
    """A flag for a field. Where it is optional its value is None unless it is given: then the class
    has its default.
    """

    def __init__(self, field: OptionField, *, is_optional: bool = False) -> None:
        self.field = field
        about, default = field.about, field.default
        self._read: Callable[[Any, str], Any] | None = None
        self.kind: Any
        if about.form:
            self.kind, self._read = READERS[about.form]
            default = None
        elif about.choices and not about.metavar:
            words = {choice or about.nothing: choice for choice in about.choices}
            self.kind = Enum(field.name.title(), {word: word for word in words}, type=str)  # type: ignore[misc]
            self._read = lambda word, flag: words[word.value]
            default = default or about.nothing or None
        else:
            self.kind = _plain(field.hint)
        self.default = None if is_optional else default

    @property
    def parameter(self) -> inspect.Parameter:
        """The parameter that typer makes an option of."""
        about, declared = self.field.about, self.field.flag
        if self.kind is bool and self.field.default is not False:
            declared = f"{declared}/--no-{declared.removeprefix('--')}"
        option = typer.Option(
            declared,
            metavar=about.metavar or None,
            help=about.text,
            min=about.least if self.kind is int else None,
            max=about.most if self.kind is int else None,
            show_default=self.default not in (None, "") and about.metavar != "SECONDS",
        )
        kind = self.kind if self.default is not None else self.kind | None
        return inspect.Parameter(
            self.key,
            inspect.Parameter.KEYWORD_ONLY,
            default=self.default,
            annotation=Annotated[kind, option],
        )

    @property
    def key(self) -> str:
        """The name of the parameter."""
        name = self.field.flag.removeprefix("--").replace("-", "_")
        return f"{name}_" if iskeyword(name) else name

    def value(self, given: Any) -> Any:
        """The value of the field for what the command line gives."""
        if given is None or self._read is None:
            return given
        return self._read(given, self.field.flag)


def _plain(hint: Any) -> Any:
    """The simple type that a flag of a field has."""
    kinds = get_args(hint) if get_args(hint) else (hint,)
    return next(kind for kind in kinds if kind in (str, int, float, bool, Path))


@dataclass(frozen=True)
class Flags:
    """Flags that stand for one object, and what makes it of the fields that are given."""

    make: Callable[..., Any]
    flags: Sequence[Flag]

    @classmethod
    def of(cls, kind: type[Checked], chosen: Only | None = None) -> Flags:
        """The flags of the fields of a class, and of the options that these fields may be."""
        return cls(getattr(kind, "flat", kind), list(_flags(kind, chosen or Without())))

    def options(self, given: dict[str, Any]) -> Any:
        """The object for what the command line gives, of which its flags are taken."""
        values = {flag.field.name: flag.value(given.pop(flag.key)) for flag in self.flags}
        try:
            return self.make(**{name: each for name, each in values.items() if each is not None})
        except OptionError as error:
            name_flag(error, self.flags)
            raise


def name_flag(error: OptionError, flags: Iterable[Flag]) -> None:
    """Let an error about a field speak of its flag."""
    name = next((flag.field.flag for flag in flags if flag.field.name == error.field), None)
    if name is not None:
        error.what = name + error.what.removeprefix(error.field)
        error.field = ""


def _flags(kind: type[Checked], chosen: Only, *, is_optional: bool = False) -> Iterator[Flag]:
    """The flags of a class; of a base without fields, those of all classes that it is one of."""
    if not fields_of(kind):
        for one in kind.__subclasses__():
            yield from _flags(one, chosen, is_optional=True)
    for each in fields_of(kind):
        if each.about.form != "object" and chosen.takes(each.name):
            yield Flag(each, is_optional=is_optional)
            inner = nested(each)
            if inner is not None:
                yield from _flags(inner, chosen, is_optional=True)


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters of options are flags."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Flags] = {}
    parameters: list[inspect.Parameter] = []
    for name, each in inspect.signature(command).parameters.items():
        group = _group_of(hints[name])
        if group is None:
            only = each.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY)
            parameters.append(only)
        else:
            groups[name] = group
            parameters += [flag.parameter for flag in group.flags]

    @functools.wraps(command)
    def call(**given: Any) -> None:
        made = {name: group.options(given) for name, group in groups.items()}
        try:
            command(**given, **made)
        except OptionError as error:
            name_flag(error, [flag for group in groups.values() for flag in group.flags])
            raise

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {each.name: each.annotation for each in parameters}
    return call


def _group_of(hint: Any) -> Flags | None:
    """The flags of a parameter that is annotated as options; None of another one."""
    kind, *rest = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    for each in rest:
        if isinstance(each, Flags):
            return each
    if not (isinstance(kind, type) and issubclass(kind, Checked)):
        return None
    return Flags.of(kind, next((each for each in rest if isinstance(each, Only)), None))


def flags_of(options: Checked, names: Iterable[str] = ()) -> list[str]:
    """The flags of the fields that are not as they are by default, but for `names`."""
    return [
        each.flag
        for each in fields_of(type(options))
        if each.name not in names and getattr(options, each.name) != each.default
    ]
