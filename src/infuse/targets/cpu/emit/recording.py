"""What a model that is compiled for profiling has beside the others: every step leaves a record of
when it ran.
"""

from __future__ import annotations

from collections.abc import Sequence

from infuse.targets.text.entry import Additions


def recorded(program: int, step: int, where: str, lines: Sequence[str]) -> list[str]:
    """The C++ of a step between two looks at the clock."""
    return [
        "{ const long long begin = now_ns();",
        *lines,
        f"if (!note(m->records, {program}, {step}, begin, d))",
        f"  return fail(m, NO_MEMORY, {where}); }}",
    ]


def recording(sizes: int) -> Additions:
    """The parts of a model that keep its records and hand them out. `sizes` counts the symbols in
    the struct of sizes.
    """
    return Additions(
        f"  Records<{sizes}> records;\n",
        "  m->records.count = m->records.lost = 0;\n",
        """// Where the records of the last run lie, how many there are, and how
// many were lost.
INFUSE_API const void* infuse_profile(void* context, int64_t* count, int64_t* lost) {
  const Model& m = *(Model*)context;
  *count = m.records.count;
  *lost = m.records.lost;
  return m.records.rows.data;
}

""",
        "  close_blocks(&m->records.rows, 1);\n",
    )
