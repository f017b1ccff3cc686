"""Execution providers: there is one, and asking for others is answered with a warning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Final

from infuse.onnxruntime.devices import CPU_PROVIDER
from infuse.onnxruntime.errors import ArgumentTypeError, UnknownEntry, ValueFault
from infuse.onnxruntime.notices import no_effect

Provider = str | tuple[str, Mapping[str, Any]]
_ALL: Final = [
    "NvTensorRTRTX",
    "Tensorrt",
    "CUDA",
    "MIGraphX",
    "OpenVINO",
    "Dnnl",
    "VitisAI",
    "QNN",
    "Nnapi",
    "VSINPU",
    "Js",
    "CoreML",
    "ACL",
    "Dml",
    "Rknpu",
    "WebNN",
    "WebGpu",
    "Xnnpack",
    "CANN",
    "Azure",
    "CPU",
]


def get_all_providers() -> list[str]:
    """The names of all providers that ONNX Runtime knows; those that are not available are answered
    with a warning.
    """
    return [f"{name}ExecutionProvider" for name in _ALL]


def get_available_providers() -> list[str]:
    """What models can run on."""
    return [CPU_PROVIDER]


def check_providers(
    providers: Sequence[Provider] | None,
    options: Sequence[Mapping[str, Any]] | None,
    *,
    is_strict: bool = False,
    depth: int = 3,
) -> None:
    """Warn of providers that are not available, and of options that have no effect.

    ArgumentTypeError for what is no list of names, or of pairs of a name and its options;
    ValueFault where the options do not go with the names; with `is_strict`, UnknownEntry for a
    name that no provider has.
    """
    if providers is not None and (
        isinstance(providers, str | bytes) or not isinstance(providers, Sequence)
    ):
        raise ArgumentTypeError(
            f"providers cannot be {providers!r}", hint=f"give a list: [{CPU_PROVIDER!r}]"
        )
    pairs = [_pair(provider) for provider in providers or ()]
    if options is not None and providers:
        if len(options) != len(pairs):
            raise ValueFault(
                f"there are {len(pairs)} providers and {len(options)} provider_options"
            )
        if any(own for _, own in pairs):
            raise ValueFault("a provider has options in both providers and provider_options")
        pairs = [(name, dict(own)) for (name, _), own in zip(pairs, options)]
    available = get_available_providers()
    names = [name for name, _ in pairs]
    for number, (name, own) in enumerate(pairs):
        if is_strict and name not in get_all_providers():
            raise UnknownEntry(f"there is no provider {name!r}", hint=f"use {CPU_PROVIDER!r}")
        if name not in available:
            warnings.warn(
                f"Specified provider {name!r} is not in available provider names. Available "
                f"providers: {', '.join(map(repr, available))}. Infuse runs on the CPU",
                stacklevel=depth,
            )
        elif name in names[:number]:
            warnings.warn(f"Duplicate provider {name!r} encountered, ignoring.", stacklevel=depth)
        elif own:
            no_effect(f"the option {', '.join(map(str, own))} of {name}", depth=depth + 1)


def _pair(provider: Any) -> tuple[str, dict[str, Any]]:
    match provider:
        case str():
            return provider, {}
        case (str(name), Mapping() as options):
            return name, dict(options)
    raise ArgumentTypeError(
        f"a provider cannot be {provider!r}", hint="it is a name, or a pair of name and options"
    )
