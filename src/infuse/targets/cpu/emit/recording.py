"""What a model that is compiled for profiling has beside the others: every step leaves a record of
when it ran.
"""

from __future__ import annotations

from collections.abc import Sequence


def recorded(program: int, step: int, where: str, lines: Sequence[str]) -> list[str]:
    """The C++ of a step between two looks at the clock."""
    return [
        "{ const long long begin = now_ns();",
        *lines,
        f"if (!note(m.records, {program}, {step}, begin, &d))",
        f"  return fail(m, NO_MEMORY, {where}); }}",
    ]


class Recording:
    """The parts of a model's C++ that keep its records and hand them out; all empty where nothing
    is recorded.

    `sizes` counts the symbols in the struct of sizes; None for a model that is not profiled.
    """

    def __init__(self, sizes: int | None) -> None:
        self.headers: tuple[str, ...] = ()
        self.fields = self.begin = self.interface = self.end = ""
        if sizes is None:
            return
        self.headers = ("profile.hpp",)
        self.fields = f"  Records<{sizes}> records;\n"
        self.begin = "  m.records.count = m.records.lost = 0;\n"
        self.end = "  close_blocks(&m->records.rows, 1);\n"
        self.interface = """// Where the records of the last run lie, how many there are, and how
// many were lost.
INFUSE_API const void* infuse_profile(void* context, int64_t* count, int64_t* lost) {
  const Model& m = *(Model*)context;
  *count = m.records.count;
  *lost = m.records.lost;
  return m.records.rows.data;
}

"""
