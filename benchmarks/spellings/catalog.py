"""All forms, by subject."""

from __future__ import annotations

from typing import Final

from benchmarks.spellings import activations, attention
from benchmarks.spellings.form import Form

FORMS: Final[tuple[Form, ...]] = (*activations.FORMS, *attention.FORMS)
