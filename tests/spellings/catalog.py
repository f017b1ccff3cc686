"""All forms, by subject."""

from __future__ import annotations

from typing import Final

from tests.spellings import (
    activations,
    attention,
    linear,
    movement,
    normalizations,
    onnxruntime,
)
from tests.spellings.form import Form

FORMS: Final[tuple[Form, ...]] = (
    *activations.FORMS,
    *attention.FORMS,
    *normalizations.FORMS,
    *linear.FORMS,
    *movement.FORMS,
    *onnxruntime.FORMS,
)
