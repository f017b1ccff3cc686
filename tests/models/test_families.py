"""Real input: architectures of many families, as both exporters write them, against PyTorch and
ONNX Runtime.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

for package in ("torch", "timm", "transformers", "onnxscript", "onnxruntime"):
    if find_spec(package) is None:
        pytest.skip(
            f"{package} is needed to export the networks: pip install '.[test,zoo]'",
            allow_module_level=True,
        )

from tests.models.family_models import FAMILIES  # noqa: E402  after the check that they can be imported
from tests.models.family_network import EXPORTERS  # noqa: E402
from tests.models.family_worker import (  # noqa: E402
    BROKEN,
    OTHERS,
    OUTCOMES,
    RIGHT,
    UNEXPORTED,
    WRONG,
    Result,
    ask,
    is_good,
    measure,
)

TOLERANCE = 1e-4  # of the largest output
FAST = ("written/detector-nms legacy", "transformers/clip-text legacy", "timm/test_nfnet legacy")
"""What every run compiles; the rest takes longer."""
CASES = [
    pytest.param(name, exporter, id=case, marks=() if case in FAST else pytest.mark.full)
    for name in FAMILIES
    for exporter in EXPORTERS
    for case in [f"{name} {exporter}"]
]


@pytest.mark.timeout(900)
@pytest.mark.row("C1")
@pytest.mark.row("C7")
@pytest.mark.parametrize(("name", "exporter"), CASES)
def test_a_family_computes_what_pytorch_or_onnxruntime_does(
    name: str, exporter: str, tmp_path: Path
) -> None:
    result = measure(name, exporter, tmp_path, TOLERANCE)
    assert is_good(result), result
    if f"{name} {exporter}" in FAST:
        assert result.outcome == RIGHT, result
        assert result.symbolic


def test_there_are_enough_families_of_each_kind() -> None:
    kinds = [name.partition("/")[0] for name in FAMILIES]
    assert kinds.count("timm") >= 75
    assert kinds.count("transformers") >= 28
    assert kinds.count("written") >= 9


def test_a_hang_is_an_answer() -> None:
    assert ask("written/autoencoder", "legacy", 0.01, TOLERANCE).outcome == UNEXPORTED


def test_a_wrong_result_is_told_from_a_broken_export() -> None:
    good = {outcome for outcome in OUTCOMES if is_good(Result(outcome))}
    assert good == {RIGHT, *OTHERS}
    assert BROKEN in good
    assert WRONG not in good
