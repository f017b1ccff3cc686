"""Plain data: what JSON, YAML and TOML make of a text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

JsonObject = Mapping[str, Any]
"""Values by name, as a parser gives them: what they are is checked where they are read."""
