"""What places the tensors of a program for sizes that only a call knows, as C."""

from __future__ import annotations

from infuse.ir import dims
from infuse.ir.dims import Dim
from infuse.lowering.memory import Plan
from infuse.lowering.program import Program
from infuse.targets.text.language import Language
from infuse.targets.text.names import string
from infuse.targets.text.sizes import estimate_text, size_text


def buffer_sizes(plan: Plan) -> list[str]:
    """The bytes of every buffer, as C."""
    return [size_text(buffer.bytes) for buffer in plan.buffers]


def plan_text(program: Program, plan: Plan, language: Language) -> str:
    """What finds arena offsets and scratch for given sizes; the names end in the program's
    number.
    """
    n = program.number
    first = ", ".join(str(b.first) for b in plan.buffers) or "0"
    last = ", ".join(str(b.last) for b in plan.buffers) or "0"
    demands = dict.fromkeys(map(language.scratch, program.scratch))
    scratch = [f"  most = max_long(most, {demand});" for demand in demands]
    return f"""enum {{ BUFFERS_{n} = {len(plan.buffers)} }};

// The first and the last step that needs a buffer.
static const int first_step_{n}[] = {{{first}}};
static const int last_step_{n}[] = {{{last}}};

static void buffer_sizes_{n}(const Sizes* d, isize* bytes) {{
  const isize sizes[] = {{{", ".join(buffer_sizes(plan)) or "0L"}}};
  (void)d;
  memcpy(bytes, sizes, sizeof sizes);
}}

{_checks_text(program, plan, language)}
// The largest sum of bytes that are live in one step: no plan needs less.
static inline isize live_bytes_{n}(const Sizes* d) {{
  isize bytes[BUFFERS_{n} + 1];
  isize most = 0;
  buffer_sizes_{n}(d, bytes);
  for (int step = 0; step < {len(program.steps)}; ++step) {{
    isize live = 0;
    for (int i = 0; i < BUFFERS_{n}; ++i)
      if (first_step_{n}[i] <= step && step <= last_step_{n}[i])
        live += (bytes[i] + 63) / 64 * 64;
    most = max_long(most, live);
  }}
  return most;
}}

// Arena offsets for these sizes; returns the arena's bytes, negative when memory runs out.
static isize place_{n}(const Sizes* d, isize* offsets, const Heap* heap) {{
  (void)d, (void)heap;
{_placement(program, plan)}
}}

// Scratch bytes that each worker needs.
static isize scratch_bytes_{n}(const Sizes* d) {{
  (void)d;
  isize most = 64;
{chr(10).join(scratch)}
  return most;
}}
"""


def _checks_text(program: Program, plan: Plan, language: Language) -> str:
    """What refuses sizes before a run."""
    n = program.number
    sizes = sizes_before_run(program, plan)
    estimates = dict.fromkeys(f"{estimate_text(size)} >= TOO_LARGE" for size in sizes)
    checks = [
        f"  if (!({language.text(test)})) return {string(message)};"
        for test, message in program.checks
    ]
    return f"""// Whether these sizes make tensors that no memory holds.
static bool too_large_{n}(const Sizes* d) {{
  (void)d;
  return {" || ".join(estimates) or "false"};
}}

// What these sizes contradict, null when they fit.
static const char* misfit_{n}(const Sizes* d) {{
  (void)d;
  if (too_large_{n}(d)) return "the sizes of the inputs make tensors that are too large";
{chr(10).join(checks)}
  return NULL;
}}
"""


def sizes_before_run(program: Program, plan: Plan) -> list[Dim]:
    """Bytes of everything whose sizes are known before the run and not to the compiler, and the
    symbols.
    """
    tensors = [
        dims.product(shape) * dtype.bytes for _, dtype, shape in (*program.inputs, *program.outputs)
    ]
    sizes = [
        *map(dims.symbol, program.symbols),
        *tensors,
        *(buffer.bytes for buffer in plan.buffers),
    ]
    numbers = [
        d for d in sizes if isinstance(d, dims.Expr) and dims.symbols(d) <= set(program.symbols)
    ]
    return list(dict.fromkeys(numbers))


def _placement(program: Program, plan: Plan) -> str:
    n = program.number
    if plan.offsets is not None:
        lines = [f"  offsets[{i}] = {offset}L;" for i, offset in enumerate(plan.offsets)]
        return "\n".join([*lines, f"  return {plan.total}L;"])
    orders = ", ".join(str(i) for order in plan.orders for i in order)
    return f"""  static const int orders[] = {{{orders}}};
  isize bytes[BUFFERS_{n} + 1];
  const ArenaItems items = {{bytes, first_step_{n}, last_step_{n}, BUFFERS_{n}}};
  char* work = memory_open(heap, arena_scratch(BUFFERS_{n}));
  if (!work) return -1;
  buffer_sizes_{n}(d, bytes);
  const isize total = arena_plan(&items, orders, {len(plan.orders)}, offsets, work);
  memory_close(heap, work);
  return total;"""
