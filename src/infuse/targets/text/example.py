"""Programs of C that run a model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from infuse import dtypes
from infuse.ir import dim_text, dims
from infuse.options import PREFIX
from infuse.runtime.folder import DECRYPT, LIBRARY, MODEL_FILE, WEIGHTS
from infuse.targets.text.names import plain, prefixed

EXAMPLE: Final = "example.c"
SIZE: Final = 8
"""The value of every symbol in the example, where its command line has none."""
_FORMULAS: Final = {
    "floor_div": "b == 0 ? 0 : a / b - (a % b != 0 && (a < 0) != (b < 0))",
    "floor_mod": "a - floor_div(a, b) * b",
    "max_long": "a > b ? a : b",
    "min_long": "a < b ? a : b",
    "broadcast_size": "a == 1 ? b : a",
}
"""Functions of sizes, and what they are in C."""
_HEAD = """/* Runs the model on zeros and prints the sizes of its outputs; values of symbols come
 * from the command line.
 *
 * Compile: @COMMAND@
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

@INCLUDED@@FORMULAS@"""
_READING: Final = """
/* The content of a file at an address that is a multiple of 64, in memory to be freed. */
static void* read_file(const char* path, void** memory, int64_t* bytes) {
  FILE* file = fopen(path, "rb");
  long size;
  char* data = NULL;
  if (!file) return NULL;
  if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0 && fseek(file, 0, SEEK_SET) == 0) {
    *memory = malloc((size_t)size + 64);
    if (*memory) data = (char*)*memory + (64 - (uintptr_t)*memory % 64);
    if (data && fread(data, 1, (size_t)size, file) != (size_t)size) data = NULL;
    *bytes = size;
  }
  fclose(file);
  return data;
}
"""


_DECRYPTING: Final = """
/* The weights of weights.enc, by the key in the file that INFUSE_KEY names. */
static void* read_weights(void** memory) {
  int64_t bytes = 0, key_bytes = 0, size;
  void *file_memory = NULL, *key_memory = NULL, *weights = NULL;
  const char* path = getenv("INFUSE_KEY");
  const void* file = read_file("weights.enc", &file_memory, &bytes);
  const void* key = path ? read_file(path, &key_memory, &key_bytes) : NULL;
  size = file ? infuse_decrypted_bytes(file, bytes) : -1;
  if (size >= 0 && key && key_bytes == INFUSE_KEY_BYTES && (*memory = malloc((size_t)size + 64))) {
    weights = (char*)*memory + (64 - (uintptr_t)*memory % 64);
    if (infuse_decrypt(file, bytes, (const unsigned char*)key, weights)) weights = NULL;
  }
  free(file_memory);
  free(key_memory);
  return weights;
}
"""


def example(metadata: Mapping[str, Any]) -> str:
    """A C program that runs a model with this metadata."""
    prefix = metadata.get("prefix", PREFIX)
    inputs, outputs, symbols = (metadata.get(key, ()) for key in ("inputs", "outputs", "symbols"))
    total = sum(len(entry["shape"]) for entry in outputs)
    formulas = [_bytes(entry, symbols) for entry in inputs]
    opening = _opening(metadata)
    lines = [
        "int main(int argc, char** argv) {",
        (
            f"  int64_t symbols[{max(1, len(symbols))}] = "
            f"{{{', '.join([str(SIZE)] * len(symbols)) or '0'}}};"
        ),
        *(f"  /* symbols[{i}]: {plain(name)} */" for i, name in enumerate(symbols)),
        f"  int64_t sizes[{max(1, total)}];",
        f"  const void* inputs[{max(1, len(inputs))}] = {{0}};",
        f"  void* outputs[{max(1, len(outputs))}] = {{0}};",
        f"  for (int i = 0; i < {len(symbols)} && i + 1 < argc; i++)",
        "    symbols[i] = atoll(argv[i + 1]);",
        "",
        *opening.lines,
        "  if (!context) {",
        f'    fprintf(stderr, "%s\\n", {opening.complaint});',
        "    return 1;",
        "  }",
        f"  if ({opening.shapes}symbols, sizes) != INFUSE_OK) {{",
        '    fprintf(stderr, "the sizes are invalid\\n");',
        "    return 1;",
        "  }",
        *(
            f"  inputs[{i}] = NULL; /* optional: its default */"
            if inputs[i].get("optional")
            else f"  inputs[{i}] = calloc((size_t)({text}) + 1, 1);"
            for i, text in enumerate(formulas)
        ),
    ]
    lines += _made_outputs(outputs)
    lines += [
        "  if (infuse_run(context, symbols, inputs, outputs) != INFUSE_OK) {",
        '    fprintf(stderr, "%s\\n", infuse_error(context));',
        "    return 1;",
        "  }",
        *_printed(outputs),
        "",
        "  infuse_close(context);",
        f"  for (int i = 0; i < {len(inputs)}; i++) free((void*)inputs[i]);",
        f"  for (int i = 0; i < {len(outputs)}; i++) free(outputs[i]);",
        *opening.closing,
        "  free(memory);",
        "  return 0;",
        "}",
        "",
    ]
    reading = "" if metadata.get("embedded") else _READING
    if metadata.get("encrypted"):
        reading += _DECRYPTING
    head = (
        (_HEAD + reading)
        .replace("@FORMULAS@", _functions(" ".join(formulas)))
        .replace("@COMMAND@", command(metadata))
        .replace("@INCLUDED@", opening.included)
    )
    return prefixed(head + "\n" + "\n".join(lines), prefix)


class _Opening(NamedTuple):
    """How an example opens a model, what it says where that fails, what tells it sizes, what it
    closes besides, and which headers it needs.
    """

    lines: Sequence[str]
    complaint: str = '"the weights cannot be read, or there is no memory"'
    shapes: str = "infuse_shapes("
    closing: Sequence[str] = ()
    included: str = '#include "model.h"\n'


_OF_PROGRAMS: Final = _Opening(
    (
        "  void *memory = NULL, *program = NULL, *context = NULL;",
        "  int64_t bytes = 0;",
        '  char why[256] = "the file cannot be read, or there is no memory";',
        f'  const void* content = read_file("{MODEL_FILE}", &memory, &bytes);',
        "  if (content) program = infuse_program_read(content, bytes, why, sizeof why);",
        "  if (program) context = infuse_program_open(program, 2);",
    ),
    "why",
    "infuse_program_shapes(program, ",
    ("  infuse_program_close(program);",),
    '#include "infuse.h"\n',
)


def _opening(metadata: Mapping[str, Any]) -> _Opening:
    """How an example of this model opens it."""
    if metadata.get("bundled"):
        return _OF_PROGRAMS
    if metadata.get("embedded"):
        return _Opening(("  void *memory = NULL, *context = infuse_open(NULL, 2);",))
    first, included = "  void* memory = NULL;", '#include "model.h"\n'
    last = "  void* context = weights ? infuse_open(weights, 2) : NULL;"
    if metadata.get("encrypted"):
        read = "  void* weights = read_weights(&memory);"
        return _Opening((first, read, last), included=f'#include "{DECRYPT}"\n{included}')
    read = f'  void* weights = read_file("{WEIGHTS}", &memory, &bytes);'
    return _Opening((first, "  int64_t bytes = 0;", read, last))


def _functions(text: str) -> str:
    """The definitions of the functions that sizes call."""
    used = [
        name
        for name in _FORMULAS
        if f"{name}(" in text or (name == "floor_div" and "floor_mod(" in text)
    ]
    lines = [
        f"static int64_t {name}(int64_t a, int64_t b) {{ return {_FORMULAS[name]}; }}"
        for name in used
    ]
    return "\n".join(["", *lines, ""]) if lines else ""


def _bytes(entry: Mapping[str, Any], symbols: Sequence[str]) -> str:
    """The bytes of an input, as C."""
    places = {name: f"symbols[{i}]" for i, name in enumerate(symbols)}
    sizes = [
        size if isinstance(size, int) else parsed_size(size, symbols) for size in entry["shape"]
    ]
    return dim_text.c_text(
        dims.product([*sizes, dtypes.by_name(entry["dtype"]).bytes]), places.__getitem__
    )


def parsed_size(size: str, symbols: Sequence[str]) -> dims.Dim:
    """A size as metadata writes it."""
    return dims.symbol(size) if size in symbols else dim_text.parse(size)


def _made_outputs(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Memory for the outputs whose sizes are known before the run."""
    lines, first = [], 0
    for i, entry in enumerate(outputs):
        rank = len(entry["shape"])
        if not entry.get("late"):
            factors = [f"(size_t)sizes[{first + axis}]" for axis in range(rank)]
            size = " * ".join([*factors, str(dtypes.by_name(entry["dtype"]).bytes)])
            lines.append(f"  outputs[{i}] = calloc({size} + 1, 1);")
        first += rank
    return lines


def _printed(outputs: Sequence[Mapping[str, Any]]) -> list[str]:
    """The sizes of all outputs, those that only the run found out included."""
    lines, first = [], 0
    for i, entry in enumerate(outputs):
        rank = len(entry["shape"])
        if entry.get("late"):
            lines.append(f"  infuse_output(context, {i}, sizes + {first});")
        lines.append(f'  printf("outputs[{i}]:");')
        lines += [f'  printf(" %" PRId64, sizes[{first + axis}]);' for axis in range(rank)]
        lines.append('  printf("\\n");')
        first += rank
    return lines


def command(metadata: Mapping[str, Any]) -> str:
    """How the example is compiled and run."""
    prefix, library = metadata.get("prefix", PREFIX), metadata.get("library", LIBRARY)
    if metadata.get("single"):
        math = "" if metadata.get("bare") else " -lm"
        return f"cc -O2 example.c model.c -o example{math} && ./example"
    if where := metadata.get("bundled"):
        linked = f"-I{where} -L{where} -linfuse -Wl,-rpath,{where}"
        return f"cc example.c {linked} -o example && ./example"
    linked = library if prefix == PREFIX else f"-L. -l{prefix}"
    linked += " -lcrypto" if metadata.get("encrypted") else ""
    if library.endswith((".so", ".dylib")):
        return f"cc example.c {linked} -Wl,-rpath,. -o example && ./example"
    return f"a compiler of C for the library's system, example.c and {library}"
