"""What tests of models share."""

import pytest

from tests.models import peer_reports

_START = peer_reports.RANDOM.bit_generator.state


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    """Every test draws the same numbers from `peer_reports`, whatever ran before."""
    peer_reports.RANDOM.bit_generator.state = _START
