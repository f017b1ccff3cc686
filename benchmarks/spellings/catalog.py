"""All forms, by subject."""

from __future__ import annotations

from typing import Final

from benchmarks.spellings import (
    activations,
    attention,
    linear,
    movement,
    normalizations,
    onnxruntime,
)
from benchmarks.spellings.form import Form

FORMS: Final[tuple[Form, ...]] = (
    *activations.FORMS,
    *attention.FORMS,
    *normalizations.FORMS,
    *linear.FORMS,
    *movement.FORMS,
    *onnxruntime.FORMS,
)
