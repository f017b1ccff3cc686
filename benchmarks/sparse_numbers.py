"""Products whose weights are zero one by one, or two of each four, by a kernel that leaves such
zeros out, beside the dense product of NumPy's BLAS on one thread.

`OPENBLAS_NUM_THREADS=1 python -m benchmarks.sparse_numbers [--rounds N]`

For each weight that is not zero the kernel adds the weight times a row of x to accumulators in
registers, which takes any pattern. Times are the least in turns. `compression_sparse` has those of
zeros in blocks, at 80 %.
"""

import argparse
import ctypes
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks import machine

SOURCE = """
typedef float V __attribute__((vector_size(64)));
void multiply(int rows, int columns, const int* starts, const int* places, const float* weights,
              const float* x, float* y) {
  for (int c = 0; c < columns; c += 64)
    for (int r = 0; r < rows; ++r) {
      V a = {0}, b = {0}, d = {0}, e = {0};
      for (int i = starts[r]; i < starts[r + 1]; ++i) {
        const V* p = (const V*)(x + (long)places[i] * columns + c);
        a += weights[i] * p[0]; b += weights[i] * p[1];
        d += weights[i] * p[2]; e += weights[i] * p[3];
      }
      V* q = (V*)(y + (long)r * columns + c);
      q[0] = a; q[1] = b; q[2] = d; q[3] = e;
    }
}
"""
SHAPES = ((3072, 768, 128), (768, 3072, 128), (768, 768, 128), (256, 64, 3136), (1024, 256, 192))
"""Results, depth and rows, as in BERT and in 1 × 1 convolutions of ResNet-50."""
SPARSITIES = (0.5, 0.8, 0.9)


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins at a cache line."""
    memory = np.empty(array.nbytes + 64, np.uint8)
    start = -memory.ctypes.data % 64
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def sparse(rng: np.random.Generator, rows: int, depth: int, sparsity: float) -> np.ndarray:
    """Weights with this part of zeros: the smallest of each four, or of all."""
    weights = rng.standard_normal((rows, depth), np.float32)
    if sparsity == 0.5:
        fours = np.abs(weights).reshape(rows, depth // 4, 4)
        order = fours.argsort(-1).argsort(-1)
        return np.asarray(np.where(order.reshape(rows, depth) >= 2, weights, 0))
    limit = np.quantile(np.abs(weights), sparsity)
    return np.asarray(np.where(np.abs(weights) >= limit, weights, 0))


def seconds(run: Callable[[], object]) -> float:
    """The time of one call."""
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def main() -> None:
    """Print a line for each shape and part of zeros."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=60)
    rounds = parser.parse_args().rounds
    if os.environ.get("OPENBLAS_NUM_THREADS") != "1":
        raise SystemExit("set OPENBLAS_NUM_THREADS=1: the dense product has to run on one thread")
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as place:
        source, library = Path(place, "a.c"), Path(place, "a.so")
        source.write_text(SOURCE)
        command = ["cc", "-O3", "-march=native", "-shared", "-fPIC", source, "-o", library]
        subprocess.run(command, check=True)
        multiply = ctypes.CDLL(str(library)).multiply
        print(machine.processor(), machine.generation())
        for rows, depth, columns in SHAPES:
            x = aligned(rng.standard_normal((depth, columns), np.float32))
            for sparsity in SPARSITIES:
                dense = sparse(rng, rows, depth, sparsity)
                places = [np.flatnonzero(row) for row in dense]
                starts = np.cumsum([0, *map(len, places)]).astype(np.int32)
                index = np.concatenate(places).astype(np.int32)
                numbers = np.ascontiguousarray(dense[dense != 0])
                y = aligned(np.zeros((rows, columns), np.float32))
                arrays = [ctypes.c_void_p(a.ctypes.data) for a in (starts, index, numbers, x, y)]
                runs: dict[str, list[float]] = {"dense": [], "sparse": []}
                for _ in range(rounds):
                    runs["dense"].append(seconds(partial(np.matmul, dense, x)))
                    runs["sparse"].append(seconds(partial(multiply, rows, columns, *arrays)))
                assert np.allclose(y, dense @ x, rtol=1e-3, atol=1e-3)
                one, two = (min(runs[name]) for name in ("dense", "sparse"))
                case = f"{rows} x {depth} by {columns}, {sparsity:.0%} zeros"
                times = f"dense {one * 1e6:.0f} us, without zeros {two * 1e6:.0f} us"
                print(f"{case}: {times}, {one / two:.2f} times as fast")


if __name__ == "__main__":
    main()
