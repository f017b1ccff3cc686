"""Options that one format of models has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infuse.errors import OptionError
from infuse.options.fields import Checked, documented, fields_of, option


@dataclass(frozen=True)
class FormatOptions(Checked):
    """Options of a reader."""

    @classmethod
    def flat(
        cls,
        inputs: Mapping[str, Any] | None = None,
        signature: str | None = None,
        cache: bool = False,
    ) -> FormatOptions | None:
        """The options of the one format that has these; None where none is given. OptionError for
        those of two formats.
        """
        given: list[FormatOptions] = []
        given += [TorchScript(inputs)] if inputs is not None else []
        given += [SavedModel(signature)] if signature is not None else []
        given += [HuggingFace(cache)] if cache else []
        if len(given) > 1:
            names = " and ".join(type(each).__name__ for each in given)
            raise OptionError(
                f"these are options of several formats: {names}", hint="a model is in one of them"
            )
        return given[0] if given else None

    def to_dict(self) -> dict[str, Any]:
        """The arguments of the reader, by name."""
        return {each.name: getattr(self, each.name) for each in fields_of(type(self))}


@documented
@dataclass(frozen=True, eq=False)
class TorchScript(FormatOptions):
    """How a program of TorchScript is called."""

    inputs: Mapping[str, Any] | None = option(
        None,
        "What an input of a program of TorchScript is, `x:float32:batch,3,224,224`, or the number "
        "that it is to have, `rate=16000` (repeatable).",
        flag="--input",
        metavar="NAME:TYPE:SIZES",
        form="specs",
    )


@documented
@dataclass(frozen=True)
class SavedModel(FormatOptions):
    """Which function of a SavedModel of TensorFlow is read."""

    signature: str | None = option(
        None, "The signature of a SavedModel; default: the one for serving.", metavar="NAME"
    )


@documented
@dataclass(frozen=True)
class HuggingFace(FormatOptions):
    """How a model in a folder of Hugging Face is written out."""

    cache: bool = option(
        False,
        "A decoder in a folder of Hugging Face takes and gives keys and values of the tokens "
        "before.",
    )
