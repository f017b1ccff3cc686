"""Elements that are written as JSON in several parts."""

from __future__ import annotations

import json

import numpy as np
import pytest

from infuse.serving.transports import json_elements
from infuse.serving.transports.json_elements import to_json


@pytest.mark.parametrize("count", [0, 1, 3, 4, 8, 9])
def test_parts_are_one_list(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_elements, "_MOST_TOGETHER", 4)
    values = np.arange(count, dtype=np.float32)
    values[3::5] = np.nan
    values[4::5] = -np.inf
    found = json.loads(bytes(to_json("y", values, "FP32")))
    np.testing.assert_array_equal(np.array(found, np.float32), values)
    assert json.loads(bytes(to_json("y", np.arange(count), "INT64"))) == list(range(count))
