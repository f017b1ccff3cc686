"""The functions of the C interface of a model, as C."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from infuse.immutable import Immutable
from infuse.ir import dims
from infuse.lowering.program import Program
from infuse.targets.text.frames import ProgramText
from infuse.targets.text.language import Language
from infuse.targets.text.sizes import size_text, symbol_field

_REFUSAL = """  if (!context) {
    const char* why = refusal();
    return why ? why : "";
  }
"""
"""Tells why no context was opened."""
_NO_REFUSAL = '  if (!context) return "";\n'

_EMBEDDED = """#ifdef __cplusplus
extern "C" const char infuse_embedded_weights[];
#else
extern const char infuse_embedded_weights[];
#endif
"""
"""Declares the weights that are a part of the library."""

_OPEN = """INFUSE_API const char* infuse_status(int code) { return status_text(code); }

static int create_context(const infuse_options* options, void** context) {
  if (!options_valid(options, @BYTES@, @INSIDE@)) return INFUSE_BAD_OPTIONS;
  const Heap heap = {options->allocate, options->release, options->heap};
  Model* m = (Model*)memory_zeros(&heap, sizeof(Model));
  if (!m) return INFUSE_OUT_OF_MEMORY;
  m->weights = @WEIGHTS@;
  m->pool = context_open(options);
  m->error = "";
  if (!m->pool) {
    memory_close(&heap, (char*)m);
    return INFUSE_OUT_OF_MEMORY;
  }
@BLOCKS@
  lend(&m->f0.arena, options);
  *context = m;
  return INFUSE_OK;
}

static void* open_context(const void* weights, int threads) {
  const infuse_options options = usual_options(weights, threads);
  void* context;
  return create_context(&options, &context) == INFUSE_OK ? context : NULL;
}

INFUSE_API@ANYWHERE@ int infuse_create(const infuse_options* options, void** context) {
  *context = NULL;
@REFUSED@  return create_context(options, context);
}

INFUSE_API@ANYWHERE@ void* infuse_open(const void* weights, int threads) {
@CLOSED@  return open_context(weights, threads);
}

INFUSE_API void infuse_cancel(void* context, int cancel) {
  context_cancel(((Model*)context)->pool, cancel);
}

"""


class Additions(Immutable):
    """What a model that records its runs has besides: fields, what a run begins with, functions of
    the interface, and what ends a context.
    """

    fields: str = ""
    begin: str = ""
    interface: str = ""
    end: str = ""


NOTHING_ADDED = Additions()


def read_text(program: Program) -> str:
    """What fills the struct of sizes, which the functions of the interface call."""
    fields = enumerate(map(symbol_field, program.symbols))
    read = " ".join(f"d->{field} = as_size(symbols[{i}]);" for i, field in fields)
    return f"""static inline void read_sizes(Sizes* d, const int64_t* symbols) {{
  (void)d, (void)symbols;
  {read}
}}
"""


def interface_text(
    frames: Sequence[ProgramText],
    info: Mapping[str, Any],
    language: Language,
    added: Additions = NOTHING_ADDED,
) -> str:
    """The functions of a model of these frames, the outermost first."""
    program = frames[0].program
    text = json.dumps(json.dumps(info, separators=(",", ":")))
    symbols = [symbol_field(s) for s in program.symbols]
    sizes = [d for _, _, shape in program.outputs for d in shape]
    valid = " || ".join(f"d->{s} < 0" for s in symbols) or "false"
    late = set(filter(program.is_late, sizes))
    store = " ".join(
        f"dims[{i}] = {'-1' if d in late else size_text(d)};" for i, d in enumerate(sizes)
    )
    open_ = [i for i, d in enumerate(sizes) if isinstance(d, dims.Expr) and d not in late]
    negative = " || ".join(f"dims[{i}] < 0" for i in open_) or "false"
    opening = _opening(frames, info, language)
    return f"""INFUSE_API const char* infuse_metadata(void) {{
  return {text};
}}

{opening}INFUSE_API int infuse_shapes(const int64_t* symbols, int64_t* dims) {{
  Sizes sizes;
  Sizes* d = &sizes;
  memset(d, 0, sizeof sizes);
  read_sizes(d, symbols);
  if ({valid} || too_large_0(d)) return INFUSE_BAD_DATA;
  {store}
  return {negative} ? INFUSE_BAD_DATA : INFUSE_OK;
}}

INFUSE_API int64_t infuse_needed_bytes(const int64_t* symbols) {{
  isize offsets[BUFFERS_0 + 1];
  Sizes sizes;
  Sizes* d = &sizes;
  memset(d, 0, sizeof sizes);
  read_sizes(d, symbols);
  if ({valid} || misfit_0(d)) return -1;
  return place_0(d, offsets, NULL);
}}

INFUSE_API int infuse_run(void* context, const int64_t* symbols, const void* const* inputs,
                          void* const* outputs) {{
{language.begin}  Model* m = (Model*)context;
  if (!context_begin(m->pool)) return INFUSE_BUSY;
  m->error = NULL;
  m->pool->index_limit = -1;
{added.begin}  read_sizes(&m->d, symbols);
{_defaults(program)}  int failed = run_0(m, inputs, outputs);
  if (failed == CANCELLED && !m->error) m->error = failure_text(failed);
  failed = context_end(m->pool, failed);
  if (failed == LOST) m->error = failure_text(failed);
  return failure_status(failed);
}}

{_state_text(frames, language, added)}"""


def _opening(frames: Sequence[ProgramText], info: Mapping[str, Any], language: Language) -> str:
    """What opens contexts and lets others end their runs."""
    inside = bool(info.get("embedded"))
    weights = "(const char*)options->weights"
    fields = {
        "BYTES": f"INT64_C({info.get('weights_bytes', 0)})",
        "INSIDE": str(inside).lower(),
        "ANYWHERE": f" {language.anywhere}" if language.anywhere else "",
        "REFUSED": "  if (refusal()) return INFUSE_REFUSED;\n" if language.anywhere else "",
        "CLOSED": "  if (refusal()) return NULL;\n" if language.anywhere else "",
        "WEIGHTS": f"options->weights ? {weights} : infuse_embedded_weights" if inside else weights,
        "BLOCKS": "\n".join(frame.open_text() for frame in frames),
    }
    text = _OPEN
    for key, value in fields.items():
        text = text.replace(f"@{key}@", value)
    return _EMBEDDED * (inside and not info.get("single")) + text


def _state_text(frames: Sequence[ProgramText], language: Language, added: Additions) -> str:
    """What tells of the last run and of the memory of a context, and closes it."""
    held = " + ".join(frame.bytes_text() for frame in frames)
    return f"""INFUSE_API const void* infuse_output(void* context, int number, int64_t* dims) {{
  Model* m = (Model*)context;
  const Sizes* d = &m->d;
  (void)m, (void)d, (void)number, (void)dims;
{_late_outputs(frames[0])}
  return NULL;
}}

INFUSE_API{f" {language.anywhere}" if language.anywhere else ""} const char* infuse_error(
    void* context) {{
{_REFUSAL if language.anywhere else _NO_REFUSAL}  const char* text = ((Model*)context)->error;
  return text ? text : "";
}}

INFUSE_API int64_t infuse_arena_bytes(void* context) {{
  const Model* m = (const Model*)context;
  return {held};
}}

INFUSE_API int64_t infuse_live_bytes(void* context) {{
  return live_bytes_0(&((Model*)context)->d);
}}

{added.interface}INFUSE_API void infuse_close(void* context) {{
  if (!context) return;
  Model* m = (Model*)context;
{chr(10).join(frame.close_text() for frame in frames)}
{added.end}  const Heap heap = m->pool->heap;
  context_close(m->pool);
  memory_close(&heap, (char*)m);
}}
"""


def _defaults(program: Program) -> str:
    """What takes defaults for inputs that are absent."""
    if not program.defaults:
        return ""
    texts = [f"inputs[{number}]" for number in range(len(program.inputs))]
    for number, tensor in program.defaults.items():
        texts[number] = (
            f"inputs[{number}] ? inputs[{number}] : m->weights + {tensor.buffer.position}L"
        )
    return f"  const void* const all[] = {{{', '.join(texts)}}};\n  inputs = all;\n"


def _late_outputs(frame: ProgramText) -> str:
    lines = []
    for number in frame.owned:
        store = " ".join(f"dims[{i}] = {text};" for i, text in enumerate(frame.shape_texts(number)))
        lines.append(f"  if (number == {number}) {{ {store} return m->f0.results[{number}]; }}")
    return "\n".join(lines)
