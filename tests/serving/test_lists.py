"""`docs/serving_tests.md` names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in (HERE.parents[1] / "docs" / "serving_tests.md").read_text("utf-8").splitlines()
    if line.startswith("| L0_")
]
NAMED = sorted({name for row in ROWS for name in re.findall(r"`(test_\w+\.py::\w+)`", row[-1])})


@pytest.mark.row("S1")
@pytest.mark.parametrize("name", NAMED)
def test_named_tests_exist(name: str) -> None:
    file, _, function = name.partition("::")
    assert re.search(rf"^def {function}\(", (HERE / file).read_text("utf-8"), re.MULTILINE)


@pytest.mark.row("S1")
def test_every_row_has_a_test_or_a_reason() -> None:
    assert len(ROWS) > 80
    assert {row[0] for row in ROWS} == {
        *(
            "L0_batcher",
            "L0_grpc",
            "L0_http",
            "L0_input_validation",
            "L0_large_payload",
            "L0_lifecycle",
        ),
        *("L0_model_queue", "L0_nan_inf", "L0_priority"),
    }
    for row in ROWS:
        assert len(row) == 3, row
        assert len(row[2]) > 15, row
