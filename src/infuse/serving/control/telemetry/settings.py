"""What is logged and traced now, as callers of the protocol are shown it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from infuse.serving.config import Telemetry

LOG: Final = logging.getLogger("infuse")
"""The logger whose level says which messages are logged."""


def log_settings(config: Telemetry) -> Mapping[str, bool | int | str]:
    """Which messages are logged now, in Triton's words."""
    level = LOG.getEffectiveLevel()
    return {
        "log_file": "",
        "log_info": level <= logging.INFO,
        "log_warning": level <= logging.WARNING,
        "log_error": level <= logging.ERROR,
        "log_verbose_level": int(level <= logging.DEBUG),
        "log_format": config.log_format,
    }


def trace_settings(config: Telemetry) -> Mapping[str, str | list[str]]:
    """Which requests are traced, in Triton's words."""
    share = config.trace_share if config.traces else 0.0
    return {
        "trace_level": ["TIMESTAMPS" if share else "OFF"],
        "trace_rate": str(round(1 / share)) if share else "0",
        "trace_count": "-1",
        "log_frequency": "0",
        "trace_file": "",
        "trace_mode": "opentelemetry",
    }
