"""What opsets a file names."""

from __future__ import annotations

from collections.abc import Sequence

from onnx import OperatorSetIdProto

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.onnx.functions import (
    NEWEST,
    opset_of,
)
from infuse.frontends.onnx.scopes import Scope


def domain_of(name: str) -> str:
    """The domain that a name means: "ai.onnx" is the default one."""
    return "" if name == "ai.onnx" else name


def opsets_of(imports: Sequence[OperatorSetIdProto]) -> dict[str, int]:
    """The version of each domain that a file imports. UnsupportedOperatorError where ONNX's is
    unknown.
    """
    opsets = {domain_of(entry.domain): int(entry.version) for entry in imports}
    if not 1 <= opsets.get("", 1) <= NEWEST:
        raise UnsupportedOperatorError(
            f"the model uses opset {opsets['']} of ONNX, known are 1 to {NEWEST}",
            hint=(
                f"export the model with an opset of at most {NEWEST}, or install a newer onnx "
                "package"
            ),
        )
    return opsets


def call_opset(domain: str, kind: str, scope: Scope) -> int:
    """The opset that a call is to be read in."""
    version = scope.opsets.get(domain, 0)
    if not version and domain == "":
        raise ModelFileError("the model imports no opset of ONNX itself, but uses its operators")
    return opset_of(domain, kind, version)
