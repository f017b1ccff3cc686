"""Whether the packages that a command needs are there, and fit together."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, distribution
from typing import Final

from infuse.errors import OptionError

GENERATED: Final = {
    "grpc_health.v1.health_pb2": "grpcio-health-checking",
    "grpc_reflection.v1alpha.reflection_pb2": "grpcio-reflection",
}
"""Code that refuses a release of protobuf older than the one that wrote it, and its packages."""
FITTING: Final = (
    "pip install 'grpcio-health-checking<1.82' 'grpcio-reflection<1.82' 'protobuf>=6.33.5,<7'"
)
"""Releases that work together, and beside tritonclient."""
_REQUIREMENT: Final = re.compile(r"([\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?([^;)]*)\)?\s*(;.*)?$")
_CLAUSE: Final = re.compile(r"(>=|<=|==|!=|~=|>|<)\s*([\d.]+)")


def require_packages(names: Sequence[str]) -> None:
    """OptionError where a package is missing that the extra `serve` brings, or where those of gRPC
    do not work with the protobuf that is installed.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise OptionError(
            f"this command needs {', '.join(missing)}",
            hint="install Infuse with its extra serve: pip install '.[serve]' in a checkout, or "
            "pip install 'infuse-….whl[serve]' with the path of a wheel",
        )
    if "grpc" in names:
        _require_generated()


def _require_generated() -> None:
    """Import what depends on the release of protobuf, so that it fails here."""
    try:
        for module in GENERATED:
            import_module(module)
    except Exception as error:  # VersionError, ImportError, TypeError: as releases have it
        names = (*GENERATED.values(), "protobuf", "grpcio")
        told = "; ".join(disagreements(*_installed(names))) or str(error).partition("\n")[0]
        raise OptionError(f"packages do not fit together: {told}", hint=FITTING) from error


def _installed(names: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """The versions of packages, and what each asks for."""
    versions, needs = {}, {}
    for name in names:
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        versions[name], needs[name] = found.version, list(found.requires or ())
    return versions, needs


def disagreements(versions: Mapping[str, str], needs: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """What packages ask for (`protobuf<8.0.0,>=7.35.1`) that the installed versions do not meet."""
    for name, requirements in needs.items():
        for text in requirements:
            parsed = _REQUIREMENT.match(text)
            if parsed is None or "extra" in (parsed[3] or ""):
                continue
            version = versions.get(parsed[1].lower())
            clauses = _CLAUSE.findall(parsed[2])
            if version is not None and not all(_holds(version, *clause) for clause in clauses):
                asked = f"{parsed[1]}{parsed[2].strip()}"
                yield f"{name} {versions[name]} needs {asked}, and {version} is installed"


def _holds(version: str, relation: str, bound: str) -> bool:
    """Whether a version is in a relation to another one, by the numbers that they begin with."""
    ours, theirs = _numbers(version), _numbers(bound)
    size = max(len(ours), len(theirs))
    a, b = (numbers + [0] * (size - len(numbers)) for numbers in (ours, theirs))
    if relation == "~=":
        return a >= b and ours[: len(theirs) - 1] == theirs[:-1]
    return {
        ">=": a >= b,
        "<=": a <= b,
        "==": a == b,
        "!=": a != b,
        ">": a > b,
        "<": a < b,
    }[relation]


def _numbers(version: str) -> list[int]:
    found = re.match(r"\d+(?:\.\d+)*", version)
    return [int(part) for part in found[0].split(".")] if found else [0]
