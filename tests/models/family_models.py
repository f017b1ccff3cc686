"""All families by name: written/NAME, transformers/NAME, timm/NAME."""

from collections.abc import Callable
from functools import partial

from tests.models.family_network import Network
from tests.models.family_timm import TIMM, make as make_timm
from tests.models.family_transformers import TRANSFORMERS
from tests.models.family_written import WRITTEN, make as make_written

FAMILIES: dict[str, Callable[[], Network]] = {
    **{f"written/{name}": partial(make_written, name) for name in WRITTEN},
    **{f"transformers/{name}": make for name, make in TRANSFORMERS.items()},
    **{f"timm/{name}": partial(make_timm, name) for name in TIMM},
}
"""What makes each network; of each library the small ones first."""
