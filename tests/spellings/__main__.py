"""What Infuse makes of exporters' spellings: `python -m tests.spellings [OPERATOR…]`.

Prints for every operator and exporter whether the form is recognised or refused, and which rule
says why. Exit status 1 where a form is neither.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Final

from rich.console import Console
from rich.table import Table

from tests.spellings.catalog import FORMS
from tests.spellings.form import Form, operators

RECOGNISED, REFUSED, MISSED = "recognised", "refused", "missed"
STYLES: Final = {RECOGNISED: "green", REFUSED: "yellow", MISSED: "red"}


def main(arguments: list[str] | None = None) -> int:
    """The command; 1 where a form is neither recognised nor refused with the stated reason."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="parts of their names")
    options = parser.parse_args(arguments)
    chosen = [form for form in FORMS if _is_asked_for(form, options.operators)]
    console = Console()
    table = Table("operator", "exporter", "result", "what is left, or why not")
    counts: Counter[str] = Counter()
    for form in chosen:
        outcome, text = judged(form)
        counts[outcome] += 1
        style = STYLES[outcome]
        table.add_row(form.operator, form.exporter, f"[{style}]{outcome}[/{style}]", text)
    console.print(table)
    console.print(", ".join(f"{counts[outcome]} {outcome}" for outcome in STYLES))
    return 1 if counts[MISSED] else 0


def judged(form: Form) -> tuple[str, str]:
    """What becomes of a form, and the operators that are left or the reason."""
    left = operators(form.optimized())
    if left != form.left:
        return MISSED, f"{left}, expected {form.left}"
    if not form.refused_by:
        return RECOGNISED, left
    reasons = [reason for reason in form.refusals() if form.reason in reason]
    return (REFUSED, f"{form.refused_by}: {reasons[0]}") if reasons else (MISSED, "no reason")


def _is_asked_for(form: Form, parts: list[str]) -> bool:
    return not parts or any(part.lower() in form.operator.lower() for part in parts)


if __name__ == "__main__":
    raise SystemExit(main())
