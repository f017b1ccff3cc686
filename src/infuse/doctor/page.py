"""The table of faults as data and as a page: `python -m infuse.doctor.page docs/faults.md`."""

from __future__ import annotations

import sys
from pathlib import Path

from infuse.doctor.examine import table

_HEAD = """# Faults of exporters and runtimes

What `infuse doctor` looks for in a model file: behaviour of exporters, runtimes and tools on valid
input that gives other numbers than the framework, or the standard, says. Each was seen by running
the versions that are named. A row with a dagger (†) concerns special numbers alone: NaN,
infinities, empty tensors, beyond 32 bits; `--notes` shows these.

This page is written by `python -m infuse.doctor.page docs/faults.md`.
"""


def rows() -> list[dict[str, str]]:
    """One for each fault, as texts."""
    return [
        {
            "fault": fault.name,
            "by": fault.by,
            "versions": ", ".join(fault.versions),
            "gone": fault.gone or "",
            "right": fault.right,
            "wrong": fault.wrong,
            "when": fault.when,
            "advice": fault.advice,
            "proof": fault.proof,
            "note": "yes" if fault.note else "",
        }
        for fault in table()
    ]


def page() -> str:
    """The page of documentation."""
    parts = [_HEAD]
    for by in dict.fromkeys(row["by"] for row in rows()):
        parts.append(f"## {by}\n\n| fault | right | instead | when | do | seen in |")
        parts.append("|---|---|---|---|---|---|")
        for row in rows():
            if row["by"] != by:
                continue
            name = row["fault"] + (" †" if row["note"] else "")
            gone = f", not in {row['gone']}" if row["gone"] else ""
            cells = (name, row["right"], row["wrong"], row["when"], row["advice"])
            line = " | ".join(cell.replace("|", "\\|") for cell in cells)
            parts.append(f"| {line} | {row['versions']}{gone} |")
        parts.append("")
    return "\n".join(parts)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
