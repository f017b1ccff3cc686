"""The most likely sequence of tags: Viterbi decoding as a traced program, its loops compiled to
native loops.

`python -m examples.viterbi` compiles it and compares it with NumPy.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

import infuse
from infuse import processing

Floats = npt.NDArray[np.float32]


def decoder(start: Floats, transitions: Floats) -> Any:
    """The graph: scores of tags (batch, length, tags) in; the best tags (batch, length) and their
    total scores (batch) out, for any batch and length.
    """

    def decoded(scores: Any) -> dict[str, Any]:
        path, total = processing.viterbi(scores, transitions, start)
        return {"path": path, "total": total}

    return infuse.trace(
        decoded, {"scores": infuse.Spec("float32", ("batch", "length", len(start)))}
    )


def reference(start: Floats, transitions: Floats, scores: Floats) -> tuple[Any, Any]:
    """The same in NumPy."""
    best, origins = scores[:, 0] + start, []
    for row in scores[:, 1:].swapaxes(0, 1):
        reached = best[:, :, None] + transitions
        origins.append(reached.argmax(1))
        best = reached.max(1) + row
    path = [best.argmax(1)]
    for origin in origins[::-1]:
        path.insert(0, np.take_along_axis(origin, path[0][:, None], 1)[:, 0])
    return np.stack(path, 1), best.max(1)


def main(argv: Sequence[str] | None = None) -> int:
    """Decode random scores and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--tags", type=int, default=17)
    parser.add_argument("--length", type=int, default=200)
    parser.add_argument("--batch", type=int, default=8)
    options = parser.parse_args(argv)
    rng = np.random.default_rng(0)
    start, transitions, scores = (
        rng.standard_normal(sizes).astype(np.float32)
        for sizes in (
            (options.tags,),
            (options.tags,) * 2,
            (options.batch, options.length, options.tags),
        )
    )
    with infuse.compile(decoder(start, transitions)) as model:
        model.run({"scores": scores})
        begin = time.perf_counter()
        found = model.run({"scores": scores})
        seconds = time.perf_counter() - begin
    begin = time.perf_counter()
    path, total = reference(start, transitions, scores)
    peer = time.perf_counter() - begin
    same = np.array_equal(found["path"], path) and np.allclose(found["total"], total, rtol=1e-5)
    print(
        f"{scores.shape[0]} × {scores.shape[1]} tags in {seconds * 1e3:.2f} ms, NumPy "
        f"{peer * 1e3:.2f} ms"
    )
    print(f"the paths are {'those' if same else 'NOT those'} of NumPy")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
