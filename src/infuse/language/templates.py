"""Chat templates: messages as the text that a model was trained on."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

from infuse.errors import InputError, ModelFileError, UnsupportedOperatorError

Message = Mapping[str, Any]
_LONGEST = 1 << 20
_ROUNDS = 1 << 20
"""Rounds of all loops of a template together."""
_COUNTED = "infuse_counted"


class _Refused(Exception):
    """What a template says of messages that it does not take."""


def render(template: str, messages: Sequence[Message], **values: Any) -> str:
    """The text of messages, each with `role` and `content`, up to where the answer begins.
    `values`: what the template is given besides, such as `bos_token` and `tools`.

    It runs in Jinja's sandbox. InputError where the template refuses the messages, ModelFileError
    where it cannot be run, UnsupportedOperatorError without the package jinja2.
    """
    try:
        import jinja2
        import jinja2.nodes
        import jinja2.sandbox
    except ImportError as error:
        raise UnsupportedOperatorError(
            "chat templates need the package jinja2", hint="pip install jinja2"
        ) from error
    for number, message in enumerate(messages):
        if not isinstance(message.get("role"), str):
            raise InputError(f"message {number} has no role", hint='{"role": "user", "content": …}')

    def refuse(text: str) -> NoReturn:
        raise _Refused(text)

    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters[_COUNTED] = _counter()
    environment.globals["raise_exception"] = refuse
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    given = {"add_generation_prompt": True, **values, "messages": list(messages)}
    try:
        tree = environment.parse(template)
        for loop in tree.find_all(jinja2.nodes.For):
            loop.iter = jinja2.nodes.Filter(loop.iter, _COUNTED, [], [], None, None)
        text = environment.from_string(tree).render(given)
    except _Refused as error:
        raise InputError(f"the chat template refuses the messages: {error}") from error
    except (
        jinja2.TemplateError,
        ArithmeticError,
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ModelFileError(
            f"the chat template cannot be run: {str(error)[:200]}",
            hint="give a template of your own, or the prompt as text",
        ) from error
    if len(text) > _LONGEST:
        raise ModelFileError(f"the chat template makes {len(text)} characters of the messages")
    return text


def _counter() -> Callable[[Iterable[Any]], Iterator[Any]]:
    """What hands on the elements of all loops, and ends those that never would."""
    count = itertools.count(1)

    def counted(elements: Iterable[Any]) -> Iterator[Any]:
        for element in elements:
            if next(count) > _ROUNDS:
                raise OverflowError(f"its loops have more than {_ROUNDS} rounds")
            yield element

    return counted
