"""A case of a benchmark in a process of its own, whose result comes back as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any, Final

_MARK: Final = "RESULT "


def report(result: Any) -> None:
    """In the child: hand the result to the parent."""
    print(_MARK + json.dumps(result))


def run(module: str, arguments: Sequence[str], seconds: float) -> dict[str, Any]:
    """The result of `python -m MODULE ARGUMENTS`, or the reason why there is none as `error`."""
    command = [sys.executable, "-m", module, *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"not done in {seconds:g} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith(_MARK)]
    if lines:
        result: dict[str, Any] = json.loads(lines[-1].removeprefix(_MARK))
        return result
    errors = [line for line in done.stderr.splitlines() if line.strip()]
    stated = [line for line in errors if "Error" in line]
    return {"error": (stated or errors or [f"exit status {done.returncode}"])[-1][:400]}
