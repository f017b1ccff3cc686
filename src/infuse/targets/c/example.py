"""A program in C that runs a model without a heap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, Final

from infuse import dtypes

_STORED: Final = {"float16": "uint16_t", "bfloat16": "uint16_t", "bool": "uint8_t"}
"""Types of elements that C99 has under another name."""


def bare_example(metadata: Mapping[str, Any]) -> str:
    """A program that runs a model with this metadata, all of whose sizes are numbers, on zeros."""
    inputs, outputs = metadata.get("inputs", ()), metadata.get("outputs", ())
    return f"""/* Runs the model on zeros; ends with 0 where that goes well. With the compiler of a
 * microcontroller, compile model.c and this file, or link libmodel.a.
 */
#include <stdint.h>

#include "model.h"

{_arrays("input", inputs)}{_arrays("output", outputs)}
int main(void) {{
  const void* inputs[] = {{{_names("input", inputs)}}};
  void* outputs[] = {{{_names("output", outputs)}}};
  void* context = infuse_open(NULL, 1);
  if (!context) return 1;
  if (infuse_run(context, NULL, inputs, outputs) != INFUSE_OK) return 2;
  infuse_close(context);
  return 0;
}}
"""


def _arrays(kind: str, entries: Sequence[Mapping[str, Any]]) -> str:
    lines = []
    for number, entry in enumerate(entries):
        name = dtypes.by_name(entry["dtype"]).c_name
        element, count = _STORED.get(name, name), max(1, prod(entry["shape"]))
        lines.append(f"static {element} {kind}{number}[{count}];\n")
    return "".join(lines)


def _names(kind: str, entries: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(f"{kind}{number}" for number in range(len(entries))) or "0"
