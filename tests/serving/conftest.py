"""What tests of the server share: models that one of them has built, no other builds again."""

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

from infuse.serving.workers.build_cache import BuildCache
from tests.serving.builds import shared_cache

_INIT = BuildCache.__init__


@pytest.fixture(scope="module", autouse=True)
def shared_builds() -> Iterator[None]:
    """Engines of this process find what was built from the same content with the same options in
    all tests, whatever their caches are: a process for each model that a test writes took most of
    the time. A module whose subject is what is built has a fixture of this name in its place.
    """
    usual = shared_cache()

    def init(self: BuildCache, cache: Path) -> None:
        _INIT(self, usual)

    with mock.patch.object(BuildCache, "__init__", init):
        yield
