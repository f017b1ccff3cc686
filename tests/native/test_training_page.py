"""What docs/training.md and its Chinese page show works."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.ops.core.evaluate import evaluate

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.row("Z5")
@pytest.mark.parametrize("page", ["training.md", "zh/training.md"])
def test_the_examples_run_and_learn(page: str) -> None:
    text = (DOCS / page).read_text("utf-8")
    blocks = re.findall(r"^( *)```python\n(.*?)^ *```$", text, re.S | re.M)
    assert len(blocks) == 3
    names: dict[str, Any] = {}
    for _, code in blocks:
        exec(textwrap.dedent(code), names)  # the page itself
    assert names["right"] > 0.97
    losses = names["report"].losses
    assert losses[-1] < 0.2 < losses[0]
    merged, adapted = (
        evaluate(names[name], {"x": names["points"]}) for name in ("merged", "adapted")
    )
    for name, scores in merged.items():
        # One product of the sum against the sum of two, in float32.
        np.testing.assert_allclose(scores, adapted[name], rtol=1e-3, atol=1e-4)
