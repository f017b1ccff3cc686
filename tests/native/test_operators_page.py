"""docs/operators.md says what the code does."""

from pathlib import Path

from infuse import dtypes, ops
from tests.support import operators

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operators.md"


def test_page_is_up_to_date() -> None:
    assert operators.page() == PAGE.read_text("utf-8"), (
        f"python -m tests.support.operators {PAGE.name} writes it anew"
    )


def test_every_operator_has_a_line() -> None:
    text = PAGE.read_text("utf-8")
    for (domain, name), op in ops.REGISTRY.items():
        if not op.__module__.startswith("infuse.ops."):
            continue
        section = text.partition(f"\n## {domain or 'ai.onnx'} (")[2].partition("\n## ")[0]
        assert f"\n| {name} |" in section, (domain, name)


def test_types_are_told_apart() -> None:
    native, host = operators.support(ops.REGISTRY["", "Concat"])
    assert dtypes.bfloat16 in native
    assert dtypes.string in host
    assert operators.support(ops.REGISTRY["", "RandomNormalLike"])[0] == []
    assert (
        operators.named([dtypes.bool_, *operators.support(ops.REGISTRY["", "Exp"])[0]])
        == "floats, bool"
    )


def test_refusals_are_limits() -> None:
    assert "values that are not tensors of numbers" in operators.limits_of(
        ops.REGISTRY["ai.onnx.ml", "LabelEncoder"]
    )
    assert operators.entry_of(ops.REGISTRY["", "SequenceAt"]).limits.startswith("native where")
