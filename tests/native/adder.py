"""A compiled model written by hand: what the runtime and the build need, without the code
generator.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from infuse.build.build import build

METADATA: dict[str, Any] = {
    "abi": 3,
    "name": "adder",
    "inputs": [
        {"name": "x", "dtype": "float32", "shape": ["batch", 3]},
        {"name": "y", "dtype": "float32", "shape": ["batch", 3]},
    ],
    "outputs": [{"name": "sum", "dtype": "float32", "shape": ["batch", 3]}],
    "symbols": ["batch"],
    "target": "native",
    "weights_bytes": 128,
}
"""sum = x + y + w, where w are three weights that start at byte 64; fails where y[0, 0] is not a
number.
"""

_SOURCE = r"""
#include <stdlib.h>
#include <string.h>
#include "model.h"

struct Context { const float* weights; int threads; char error[64]; };

const char* infuse_metadata(void) { return @METADATA@; }

void* infuse_open(const void* weights, int threads) {
    Context* context = (Context*)malloc(sizeof(Context));
    if (!context || threads == 250) return 0;
    context->weights = (const float*)((const char*)weights + 64);
    context->threads = threads;
    return context;
}

int infuse_shapes(const int64_t* symbols, int64_t* dims) {
    dims[0] = symbols[0], dims[1] = 3;
    return symbols[0] > 1000000;
}

int infuse_run(void* opened, const int64_t* symbols, const void* const* inputs,
    void* const* outputs) {
    Context* context = (Context*)opened;
    const float *x = (const float*)inputs[0], *y = (const float*)inputs[1];
    float* sum = (float*)outputs[0];
    if (symbols[0] && y[0] != y[0]) {
        strcpy(context->error, "y starts with NaN");
        return INFUSE_BAD_DATA;
    }
    for (long i = 0; i < symbols[0] * 3; i++) sum[i] = x[i] + y[i] + context->weights[i % 3];
    return INFUSE_OK;
}

void infuse_cancel(void* opened, int cancel) { (void)opened, (void)cancel; }

const void* infuse_output(void* opened, int number, int64_t* dims) {
  (void)opened, (void)number, (void)dims;
  return 0;
}

const char* infuse_error(void* opened) { return ((Context*)opened)->error; }

int64_t infuse_arena_bytes(void* opened) { return ((Context*)opened)->threads * 4096; }

int64_t infuse_live_bytes(void* opened) { return ((Context*)opened)->threads * 4096; }

void infuse_close(void* opened) { free(opened); }
"""

WEIGHTS = [(64, np.array([10, 20, 30], np.float32))]


def source(metadata: dict[str, Any] | None = None) -> str:
    """The C++ text of the model; `metadata` is what it says of itself."""
    return _SOURCE.replace("@METADATA@", json.dumps(json.dumps(metadata or METADATA)))


def build_adder(**options: Any) -> Path:
    """The folder of the compiled adder."""
    options = {
        "sources": {"model.cpp": source()},
        "weights": WEIGHTS,
        "weights_bytes": 128,
        **options,
    }
    return build(metadata=METADATA, **{"key": "adder", **options})
