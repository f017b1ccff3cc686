"""Greedy text generation as one model: a GPT-2-shaped decoder, its cache of keys and values, and
the loop around it.

`python -m examples.generate` compiles a model of GPT-2's shape with random weights and generates
words. The graph takes the prompt and gives the words; it stops after `most` of them, or when every
row of the batch has met the end of text.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

import infuse

Floats = npt.NDArray[np.float32]
Words = npt.NDArray[np.int64]
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
OPSET = 23
EPSILON = 1e-5


@dataclass(frozen=True)
class Shape:
    """The sizes of a decoder; the defaults are those of GPT-2."""

    words: int = 50257
    places: int = 1024
    width: int = 768
    heads: int = 12
    layers: int = 12

    @property
    def size(self) -> int:
        """The size of a head."""
        return self.width // self.heads


def random_weights(shape: Shape, seed: int = 0) -> dict[str, Floats]:
    """Weights under the names that the model and the reference use."""
    rng = np.random.default_rng(seed)

    def draw(*sizes: int) -> Floats:
        return (rng.standard_normal(sizes) * sizes[0] ** -0.5).astype(np.float32)

    w = shape.width
    found = {
        name: draw(w, count).T for name, count in (("wte", shape.words), ("wpe", shape.places))
    }
    for i in range(shape.layers):
        for name, rows, columns in (
            ("qkv", w, 3 * w),
            ("out", w, w),
            ("up", w, 4 * w),
            ("down", 4 * w, w),
        ):
            found[f"{name}{i}"], found[f"{name}_bias{i}"] = (
                draw(rows, columns),
                draw(columns) * np.float32(0.1),
            )
    for name in (*(f"norm{i}" for i in range(2 * shape.layers)), "norm_last"):
        found[name], found[f"{name}_bias"] = 1 + draw(w), draw(w)
    return found


# -- the model -------------------------------------------------------------------------------------


class _Nodes:
    """Nodes under construction."""

    def __init__(self, shape: Shape, prefix: str) -> None:
        self.shape, self.prefix = shape, prefix
        self.nodes: list[NodeProto] = []

    def add(self, kind: str, *inputs: str, out: str | Sequence[str] = "", **attributes: Any) -> str:
        """The first output of a new node."""
        names = [out or f"{self.prefix}{len(self.nodes)}"] if isinstance(out, str) else list(out)
        self.nodes.append(helper.make_node(kind, inputs, names, **attributes))
        return names[0]

    def dense(self, x: str, name: str, layer: int) -> str:
        return self.add("Add", self.add("MatMul", x, f"{name}{layer}"), f"{name}_bias{layer}")

    def norm(self, x: str, name: str) -> str:
        return self.add("LayerNormalization", x, name, f"{name}_bias", epsilon=EPSILON)

    def layer(self, x: str, i: int) -> str:
        """Attention over the cache and the words, and the two products behind it."""
        split = self.add(
            "Split", self.dense(self.norm(x, f"norm{2 * i}"), "qkv", i), axis=2, num_outputs=3
        )
        parts = [split, f"{split}_k", f"{split}_v"]
        self.nodes[-1].output.extend(parts[1:])
        made = [f"attended{i}", f"new_key{i}", f"new_value{i}"]
        heads = {"q_num_heads": self.shape.heads, "kv_num_heads": self.shape.heads, "is_causal": 1}
        self.add("Attention", *parts, "", f"key{i}", f"value{i}", out=made, **heads)
        x = self.add("Add", x, self.dense(made[0], "out", i))
        up = self.add(
            "Gelu", self.dense(self.norm(x, f"norm{2 * i + 1}"), "up", i), approximate="tanh"
        )
        return self.add("Add", x, self.dense(up, "down", i))

    def round(self) -> None:
        """One round: words and a cache in, the next word, a longer cache, and whether to go on."""
        past = self.add("Shape", "key0", start=2, end=3)
        count = self.add("Shape", "fed", start=1, end=2)
        first, limit = (self.add("Squeeze", v) for v in (past, self.add("Add", past, count)))
        places = self.add("Gather", "wpe", self.add("Range", first, limit, "one"))
        x = self.add("Add", self.add("Gather", "wte", "fed"), places)
        for i in range(self.shape.layers):
            x = self.layer(x, i)
        last = self.add("Gather", x, "last", axis=1)
        scores = self.add("MatMul", self.norm(last, "norm_last"), "words")
        best = self.add("ArgMax", scores, axis=-1, keepdims=0)
        self.add("Where", "done", "end", best, out="word")
        self.add("Or", "done", self.add("Equal", "word", "end"), out="new_done")
        self.add("Unsqueeze", "word", "axis", out="new_fed")
        all_done = self.add("ReduceMin", self.add("Cast", "new_done", to=INT), keepdims=0)
        self.add("Not", self.add("Cast", all_done, to=BOOL), out="go_on")


def generator(shape: Shape, weights: Mapping[str, Floats]) -> ModelProto:
    """The model: prompt (batch, length), how many words at most and the end of text in, words
    (batch, steps) out.
    """
    body = _Nodes(shape, "inner")
    body.round()
    kinds = [(kind, i) for i in range(shape.layers) for kind in ("key", "value")]
    info = helper.make_tensor_value_info
    cache = ["batch", shape.heads, "past", shape.size]
    longer = ["batch", shape.heads, "total", shape.size]
    inside = helper.make_graph(
        body.nodes,
        "round",
        [
            *(info("number", INT, []), info("going", BOOL, [])),
            *(info("fed", INT, ["batch", "fed_words"]), info("done", BOOL, ["batch"])),
            *(info(f"{kind}{i}", FLOAT, cache) for kind, i in kinds),
        ],
        [
            *(
                info("go_on", BOOL, []),
                info("new_fed", INT, ["batch", 1]),
                info("new_done", BOOL, ["batch"]),
            ),
            *(info(f"new_{kind}{i}", FLOAT, longer) for kind, i in kinds),
            info("word", INT, ["batch"]),
        ],
    )
    start = _Nodes(shape, "outer")
    batch = start.add("Shape", "prompt", start=0, end=1)
    nobody = start.add("Expand", "no", batch)
    empty = start.add("Expand", "nothing", start.add("Concat", batch, "empty_cache", axis=0))
    left = [f"final{i}" for i in range(2 + len(kinds))]
    start.add(
        "Loop",
        "most",
        "",
        "prompt",
        nobody,
        *[empty] * len(kinds),
        out=[*left, "rows"],
        body=inside,
    )
    start.add("Transpose", "rows", out="generated", perm=[1, 0])
    constants = {**weights, "words": np.ascontiguousarray(weights["wte"].T)}
    small = {
        "last": np.array(-1),
        "one": np.array(1),
        "axis": np.array([1]),
        "no": np.array([False]),
    }
    small |= {
        "nothing": np.zeros((1, 1, 0, 1), np.float32),
        "empty_cache": np.array([shape.heads, 0, shape.size]),
    }
    graph = helper.make_graph(
        start.nodes,
        "generate",
        [info("prompt", INT, ["batch", "length"]), info("most", INT, []), info("end", INT, [])],
        [info("generated", INT, ["batch", "steps"])],
        [numpy_helper.from_array(x, name) for name, x in {**constants, **small}.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=11)


# -- the reference ---------------------------------------------------------------------------------


def reference(
    shape: Shape, weights: Mapping[str, Floats], prompt: Words, most: int, end: int
) -> Words:
    """The same in NumPy, without a cache: every word is computed from all before it."""
    text, done = prompt, np.zeros(len(prompt), bool)
    for _ in range(most):
        best = _scores(shape, weights, text).argmax(-1)
        word = np.where(done, end, best)
        text = np.concatenate([text, word[:, None]], axis=1)
        done |= word == end
        if done.all():
            break
    return text[:, prompt.shape[1] :]


def _scores(shape: Shape, weights: Mapping[str, Floats], text: Words) -> Floats:
    """The scores of the word that follows each row of `text`."""
    batch, length = text.shape

    def norm(x: Floats, name: str) -> Any:
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + EPSILON)
        return centered / deviation * weights[name] + weights[f"{name}_bias"]

    def dense(x: Any, name: str, i: int) -> Any:
        return x @ weights[f"{name}{i}"] + weights[f"{name}_bias{i}"]

    hidden = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    x: Any = weights["wte"][text] + weights["wpe"][:length]
    for i in range(shape.layers):
        parts = np.split(dense(norm(x, f"norm{2 * i}"), "qkv", i), 3, axis=-1)
        q, k, v = (p.reshape(batch, length, shape.heads, shape.size).swapaxes(1, 2) for p in parts)
        raw = q @ k.swapaxes(2, 3) / np.sqrt(np.float32(shape.size)) + hidden
        powers = np.exp(raw - raw.max(-1, keepdims=True))
        mixed = (powers / powers.sum(-1, keepdims=True)) @ v
        x = x + dense(mixed.swapaxes(1, 2).reshape(x.shape), "out", i)
        up = dense(norm(x, f"norm{2 * i + 1}"), "up", i)
        x = x + dense(
            0.5 * up * (1 + np.tanh(np.sqrt(2 / np.pi) * (up + 0.044715 * up**3))), "down", i
        )
    result: Floats = norm(x[:, -1], "norm_last") @ weights["wte"].T
    return result


def main(argv: Sequence[str] | None = None) -> int:
    """Generate words and print them with the time they took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--layers", type=int, default=Shape.layers)
    parser.add_argument("--words", type=int, default=32, help="words to generate")
    parser.add_argument("--threads", type=int, default=None)
    options = parser.parse_args(argv)
    shape = Shape(layers=options.layers)
    weights = random_weights(shape)
    prompt = np.random.default_rng(1).integers(0, shape.words, (1, 16))
    with infuse.compile(
        infuse.load(generator(shape, weights)), infuse.CompileOptions(threads=options.threads)
    ) as model:
        model.run(
            {"prompt": prompt, "most": np.array(1), "end": np.array(-1)}
        )  # the weights are read
        start = time.perf_counter()
        given = {"prompt": prompt, "most": np.array(options.words), "end": np.array(-1)}
        found = model.run(given)["generated"]
        seconds = time.perf_counter() - start
    print(" ".join(map(str, found[0])))
    print(f"{found.shape[1]} words in {seconds:.2f} s: {found.shape[1] / seconds:.1f} a second")
    few = min(4, options.words)
    same = np.array_equal(reference(shape, weights, prompt, few, -1), found[:, :few])
    print(f"the first {few} are {'those' if same else 'NOT those'} of NumPy")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
