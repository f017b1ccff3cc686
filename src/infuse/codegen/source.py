"""A program as C++: one readable function per distinct kernel call, one list of calls, the C
interface.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from infuse.codegen.interface import PREFIX, prefixed
from infuse.codegen.memory import Plan
from infuse.codegen.names import comment
from infuse.codegen.plan_text import plan_text
from infuse.codegen.program import Function, Program, Step
from infuse.codegen.program_text import ProgramText, model_text
from infuse.codegen.recording import Recording
from infuse.ir import dims
from infuse.runtime.folder import ABI
from infuse.targets.cpu.emit.sizes import size_text, symbol_field

FUNCTIONS_PER_FILE = 12


def metadata(program: Program, fingerprint: str) -> dict[str, Any]:
    """What `infuse_metadata` tells."""

    def entry(name: str, dtype: Any, shape: Any) -> dict[str, Any]:
        result = {
            "name": name,
            "dtype": dtype.name,
            "shape": [d if isinstance(d, int) else str(d) for d in shape],
        }
        return result | ({"late": True} if any(map(program.is_late, shape)) else {})

    return {
        "abi": ABI,
        "name": program.name,
        "inputs": [
            entry(*i) | ({"optional": True} if number in program.defaults else {})
            for number, i in enumerate(program.inputs)
        ],
        "outputs": [entry(*o) for o in program.outputs],
        "symbols": program.symbols,
        **({"names": program.names} if program.names else {}),
        "weights_bytes": program.weights.bytes,
        "weights_hash": fingerprint,
    }


def print_sources(
    program: Program, plan: Plan, info: Mapping[str, Any], jobs: int = 1, profile: bool = False
) -> dict[str, str]:
    """File names and C++ texts; the functions are spread over up to `jobs` files so that they
    compile side by side.

    With `profile`, a run records when every step began and ended (`infuse_profile`).
    """
    programs = [program, *program.bodies]
    frames = [ProgramText(p, q, profile) for p, q in zip(programs, [plan, *plan.bodies])]
    record = Recording(len(all_sizes(programs)) if profile else None)
    functions, names = distinct(step for p in programs for step in p.steps)
    kernels = [f for f in functions if not f.is_control]
    controls = [f for f in functions if f.is_control]
    prefix = info.get("prefix", PREFIX)
    first, sources = spread(programs, kernels, names, jobs, prefix=prefix)
    main = [preamble(programs, first, planning=True, more=record.headers, prefix=prefix)]
    main += [f"{head(f, names[f.text()])};" for f in kernels]
    main += ["", *(define(f, names[f.text()]) for f in first)]
    main += [plan_text(frame.program, frame.plan) for frame in frames]
    main += [model_text(frames, record.fields)]
    main += [f"{head(f, names[f.text()])};" for f in controls]
    main += [frame.run_text(names) for frame in frames]
    main += [define(f, names[f.text()]) for f in controls]
    main += [prefixed(_interface(frames[0], frames, info, record), prefix), end(prefix)]
    return {"model.cpp": "\n".join(main), **sources}


def all_sizes(programs: Sequence[Program]) -> list[str]:
    """The symbols of these programs, in the order in which the struct of sizes holds them."""
    return list(dict.fromkeys(s for p in programs for s in (*p.symbols, *p.late_sizes)))


def distinct(steps: Iterable[Step]) -> tuple[list[Function], dict[str, str]]:
    """The different functions that steps call, and their names by text."""
    names: dict[str, str] = {}
    functions = []
    for step in steps:
        text = step.function.text()
        if text not in names:
            clean = "".join(c if c.isalnum() or c == "_" else "_" for c in step.function.name)[:40]
            names[text] = f"{clean}_{len(names)}"
            functions.append(step.function)
    return functions, names


def spread(
    programs: Sequence[Program],
    functions: list[Function],
    names: Mapping[str, str],
    jobs: int,
    least: int = FUNCTIONS_PER_FILE,
    prefix: str = PREFIX,
) -> tuple[list[Function], dict[str, str]]:
    """The functions of the main file, and up to `jobs` - 1 more files with the others, `least` or
    more in each.
    """
    first, *parts = _parts(functions, jobs, least)
    sources = {}
    for number, part in enumerate(parts, 1):
        texts = [define(f, names[f.text()]) for f in part]
        sources[f"kernels_{number}.cpp"] = "\n".join(
            [preamble(programs, part, prefix=prefix), *texts, end(prefix)]
        )
    return first, sources


def _parts(functions: list[Function], jobs: int, least: int) -> list[list[Function]]:
    count = max(1, min(jobs, len(functions) // least + 1))
    parts: list[list[Function]] = [[] for _ in range(count)]
    kinds = sorted(range(len(functions)), key=lambda i: sorted(functions[i].includes))
    share = -(-len(functions) // count) if functions else 1
    for position, i in enumerate(kinds):
        parts[min(position // share, count - 1)].append(functions[i])
    return parts


def preamble(
    programs: Sequence[Program],
    functions: list[Function],
    planning: bool = False,
    more: Sequence[str] = (),
    prefix: str = PREFIX,
) -> str:
    """The start of a file with these functions; `planning`: of the one that also plans memory.

    The namespace that it opens, which `end` closes, has a name of its own for each `prefix`.
    """
    headers = {"threads.hpp", "element.hpp", *more}.union(*(f.includes for f in functions))
    if planning:
        headers |= {"arena.hpp", "blocks.hpp", "failure.hpp"}.union(
            *(p.call_includes for p in programs)
        )
        headers |= set().union(
            *(s.function.includes for p in programs for s in p.steps if s.function.is_control)
        )
    fields = " ".join(f"long {symbol_field(s)};" for s in all_sizes(programs))
    lines = [f"// Model {comment(programs[0].name)}, generated by Infuse."]
    lines += [f'#include "{h}"' for h in sorted(headers)]
    if planning:
        lines += ['#include "model.h"', "#include <stdio.h>", "#include <stdlib.h>"]
    lines += ["", "using namespace infuse;", "", f"namespace {prefix}_model {{", ""]
    lines.append(f"struct Sizes {{ {fields} }};  // the symbolic dimensions")
    lines.append("")
    return "\n".join(lines)


def end(prefix: str = PREFIX) -> str:
    """The end of a file that begins with a `preamble`."""
    return f"}}  // namespace {prefix}_model\n"


def head(function: Function, name: str) -> str:
    """The declaration of a function."""
    context = ["Model& m"] if function.is_control else ["Context& c", "const Sizes& d"]
    parameters = ", ".join([*context, *function.parameters])
    return f'__attribute__((visibility("hidden"))) int {name}({parameters})'


def define(function: Function, name: str) -> str:
    """The definition of a function."""
    body = "\n".join(f"  {line}" for line in function.lines)
    start = "Sizes& d = m.d;\n  (void)d;" if function.is_control else "(void)d, (void)c;"
    return f"{head(function, name)} {{\n  {start}\n{body}\n  return 0;\n}}\n"


def _interface(
    outer: ProgramText, frames: Sequence[ProgramText], info: Mapping[str, Any], record: Recording
) -> str:
    program = outer.program
    text = json.dumps(json.dumps(info, separators=(",", ":")))
    symbols = [symbol_field(s) for s in program.symbols]
    read = " ".join(f"d.{s} = (long)symbols[{i}];" for i, s in enumerate(symbols))
    sizes = [d for _, _, shape in program.outputs for d in shape]
    valid = " || ".join(f"d.{s} < 0" for s in symbols) or "false"
    late = set(filter(program.is_late, sizes))
    store = " ".join(
        f"dims[{i}] = {'-1' if d in late else size_text(d)};" for i, d in enumerate(sizes)
    )
    open_ = [i for i, d in enumerate(sizes) if isinstance(d, dims.Expr) and d not in late]
    negative = " || ".join(f"dims[{i}] < 0" for i in open_) or "false"
    held = " + ".join(frame.bytes_text() for frame in frames)
    return f"""static inline void read_sizes(Sizes& d, const int64_t* symbols) {{
  (void)d, (void)symbols;
  {read}
}}

extern "C" {{

INFUSE_API const char* infuse_metadata(void) {{
  return {text};
}}

INFUSE_API void* infuse_open(const void* weights, int threads) {{
  Model* m = (Model*)calloc(1, sizeof(Model));
  if (!m) return nullptr;
  m->weights = (const char*)weights;
  m->pool = context_open(threads);
  m->error = "";
  if (!m->pool) {{
    free(m);
    return nullptr;
  }}
  return m;
}}

INFUSE_API int infuse_shapes(const int64_t* symbols, int64_t* dims) {{
  Sizes d{{}};
  read_sizes(d, symbols);
  if ({valid} || too_large_0(d)) return INFUSE_BAD_DATA;
  {store}
  return {negative} ? INFUSE_BAD_DATA : INFUSE_OK;
}}

INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs,
                          void* const* outputs) {{
  const FlushSubnormals flush;
  Model& m = *(Model*)context;
  m.error = nullptr;
  m.pool->index_limit = -1;
{record.begin}  read_sizes(m.d, symbols);
{_defaults(program)}  const int failed = run_0(m, inputs, outputs);
  if (!failed) return INFUSE_OK;
  return failed == NO_MEMORY ? INFUSE_OUT_OF_MEMORY : INFUSE_BAD_DATA;
}}

INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims) {{
  Model& m = *(Model*)context;
  const Sizes& d = m.d;
  (void)m, (void)d, (void)dims;
{_late_outputs(outer)}
  return nullptr;
}}

INFUSE_API const char* infuse_error(void* context) {{
  const char* text = ((Model*)context)->error;
  return text ? text : "";
}}

INFUSE_API int64_t infuse_arena_bytes(void* context) {{
  const Model& m = *(Model*)context;
  return {held};
}}

INFUSE_API int64_t infuse_live_bytes(void* context) {{ return live_bytes_0(((Model*)context)->d); }}

{record.interface}INFUSE_API void infuse_close(void* context) {{
  if (!context) return;
  Model* m = (Model*)context;
{chr(10).join(frame.close_text() for frame in frames)}
{record.end}  context_close(m->pool);
  free(context);
}}

}}  // extern "C"
"""


def _defaults(program: Program) -> str:
    """What takes defaults for inputs that are absent."""
    if not program.defaults:
        return ""
    texts = [f"inputs[{number}]" for number in range(len(program.inputs))]
    for number, tensor in program.defaults.items():
        texts[number] = (
            f"inputs[{number}] ? inputs[{number}] : m.weights + {tensor.buffer.position}L"
        )
    return f"  const void* const all[] = {{{', '.join(texts)}}};\n  inputs = all;\n"


def _late_outputs(frame: ProgramText) -> str:
    lines = []
    for number in frame.owned:
        store = " ".join(f"dims[{i}] = {text};" for i, text in enumerate(frame.shape_texts(number)))
        lines.append(f"  if (number == {number}) {{ {store} return m.f0.results[{number}]; }}")
    return "\n".join(lines)
