"""Branches whose results differ in rank as native code, beside ONNX Runtime."""

import numpy as np
import pytest

import infuse
from infuse.errors import DataError
from tests.branch_models import CASES, names
from tests.models.onnx_tools import run

pytestmark = pytest.mark.row("G24", "C7")


@names
def test_nothing_is_left_to_the_interpreter(name: str) -> None:
    case = CASES[name]
    with infuse.compile(infuse.optimize(infuse.load(case.proto)), threads=1) as compiled:
        assert not compiled.host_steps
        given = {spec.name for spec in compiled.inputs}
        for feeds in [*case.feeds, case.feeds[0]]:
            results = compiled.run({k: v for k, v in feeds.items() if k in given}).values()
            for found, expected in zip(results, run(case.proto, feeds), strict=True):
                np.testing.assert_allclose(found, expected, rtol=2e-6, strict=True)
        for feeds in case.fails:
            with pytest.raises(DataError, match=case.why):
                compiled.run(feeds)
