"""The most likely sequence of tags: Viterbi decoding written as PyTorch script, its loops compiled
to native loops.

`python -m examples.viterbi` exports the script to ONNX, compiles it, and compares it with NumPy.
"""

from __future__ import annotations

import argparse
import io
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import infuse

Floats = npt.NDArray[np.float32]


class Viterbi(torch.nn.Module):
    """Scores of tags (batch, length, tags) in; the best tags (batch, length) and their total scores
    (batch) out.
    """

    def __init__(self, start: torch.Tensor, transitions: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("start", start)
        self.register_buffer("transitions", transitions)

    def forward(self, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Forward through the best predecessors of each tag, then back along them."""
        best = scores[:, 0] + self.start
        origins = torch.zeros((0, scores.size(0), scores.size(2)), dtype=torch.int64)
        for i in range(1, scores.size(1)):
            reached = best.unsqueeze(2) + self.transitions
            top, origin = reached.max(dim=1)
            best = top + scores[:, i]
            origins = torch.cat([origins, origin.unsqueeze(0)], dim=0)
        total, last = best.max(dim=1)
        tag = last.unsqueeze(1)
        path = tag
        for i in range(origins.size(0)):
            tag = origins[origins.size(0) - 1 - i].gather(1, tag)
            path = torch.cat([tag, path], dim=1)
        return path, total


def exported(start: Floats, transitions: Floats) -> bytes:
    """The script as an ONNX model with any batch and length; its loops are Loop nodes."""
    target = io.BytesIO()
    axes = {
        "scores": {0: "batch", 1: "length"},
        "path": {0: "batch", 1: "length"},
        "total": {0: "batch"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.script(Viterbi(torch.from_numpy(start), torch.from_numpy(transitions)))
        torch.onnx.export(
            script,
            (torch.zeros(2, 5, len(start)),),
            target,
            input_names=["scores"],
            output_names=["path", "total"],
            dynamic_axes=axes,
            opset_version=17,
            dynamo=False,
        )
    return target.getvalue()


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
    with infuse.compile(infuse.load(exported(start, transitions))) as model:
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
