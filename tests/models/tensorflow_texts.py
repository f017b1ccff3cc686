"""SavedModels, a TensorFlow Lite file and one of TensorFlow.js with strings and tables, by their
exporters: `python -m tests.models.tensorflow_texts` writes `data/tensorflow/texts.npz` with what
each is called with and what TensorFlow makes of it. Needs tensorflow and tensorflowjs.
"""

from __future__ import annotations

import sys
import tempfile
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from tests.models.make_tensorflow import _stripped
from tests.models.tensorflow_files import DATA, write

layers = keras.layers
TEXTS = np.array(
    ["The cat sat.", "a dog, a cat!", "", "Unknown  words Here", "the\u00a0the dog été ÉTÉ"]
)
COLOURS = np.array([["red", "blue"], ["purple", ""], ["green", "octarine"]])
RNG = np.random.default_rng(0)
Feeds = dict[str, np.ndarray]


def vectorization(**options: Any) -> Any:
    """A layer that was shown the texts."""
    layer = layers.TextVectorization(max_tokens=30, **options)
    layer.adapt(TEXTS)
    return layer


def sequential(given: str, shape: tuple[int, ...], *steps: Any) -> Any:
    """A network of one input of strings."""
    x = source = keras.Input(shape, dtype="string", name=given)
    for step in steps:
        x = step(x)
    return keras.Model(source, x)


def structured() -> tuple[Any, Feeds]:
    """Keras, Classify structured data using preprocessing layers."""
    colour = keras.Input((1,), dtype="string", name="colour")
    size = keras.Input((1,), name="size")
    code = keras.Input((1,), dtype="int64", name="code")
    city = keras.Input((1,), dtype="string", name="city")
    normal = layers.Normalization(axis=None)
    normal.adapt(np.arange(10.0))
    numbers = layers.IntegerLookup(vocabulary=[10, 20, 30], output_mode="one_hot")(code)
    names = layers.StringLookup(vocabulary=["red", "green", "blue"], output_mode="one_hot")(colour)
    cities = layers.CategoryEncoding(num_tokens=8, output_mode="one_hot")(layers.Hashing(8)(city))
    salted = layers.Hashing(5, salt=133)(colour)
    salted = layers.CategoryEncoding(num_tokens=5, output_mode="one_hot")(salted)
    x = layers.Concatenate()([names, normal(size), numbers, cities, salted])
    model = keras.Model([colour, size, code, city], layers.Dense(1)(x))
    feeds = {
        "colour": np.array([["red"], ["blue"], ["pink"]]),
        "size": np.array([[1.0], [2.0], [3.0]], np.float32),
        "code": np.array([[10], [20], [77]]),
        "city": np.array([["Paris"], ["Zürich"], ["a long name " * 7]]),
    }
    return model, feeds


class Classes(tf.Module):
    """The names of the likeliest classes."""

    def __init__(self) -> None:
        super().__init__()
        keys, names = tf.constant([0, 1, 2], tf.int64), tf.constant(["cat", "dog", "bird"])
        pairs = tf.lookup.KeyValueTensorInitializer(keys, names)
        self.table = tf.lookup.StaticHashTable(pairs, "?")
        self.weights = tf.Variable(RNG.normal(size=(4, 3)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, "x")])
    def call(self, x: Any) -> Any:
        values, places = tf.math.top_k(tf.nn.softmax(x @ self.weights), 2)
        return {"classes": self.table.lookup(tf.cast(places, tf.int64)), "scores": values}


class Vocabulary(tf.Module):
    """A vocabulary in a file of its own, buckets for other words, and the way back."""

    def __init__(self, path: str) -> None:
        super().__init__()
        index = tf.lookup.TextFileIndex
        whole, number = index.WHOLE_LINE, index.LINE_NUMBER
        places = tf.lookup.TextFileInitializer(path, tf.string, whole, tf.int64, number)
        words = tf.lookup.TextFileInitializer(path, tf.int64, number, tf.string, whole)
        self.places = tf.lookup.StaticVocabularyTable(places, 3)
        self.words = tf.lookup.StaticHashTable(words, "UNK")
        self.rows = tf.Variable(RNG.normal(size=(7, 3)).astype(np.float32))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def call(self, text: Any) -> Any:
        plain = tf.strings.regex_replace(tf.strings.lower(text), r"[^a-z ]+", "")
        ids = self.places.lookup(tf.strings.split(plain).to_tensor(""))
        mean = tf.reduce_mean(tf.gather(self.rows, ids), 1)
        return {"ids": ids, "back": self.words.lookup(ids), "mean": mean}


class Strings(tf.Module):
    """One of each operator on strings."""

    @tf.function(
        input_signature=[
            tf.TensorSpec([None], tf.string, "a"),
            tf.TensorSpec([None], tf.string, "b"),
            tf.TensorSpec([None], tf.int32, "n"),
        ]
    )
    def call(self, a: Any, b: Any, n: Any) -> Any:
        s = tf.strings
        return {
            "joined": s.join([a, b, s.as_string(n)], "-"),
            "upper": s.upper(a),
            "lower": s.lower(a, encoding="utf-8"),
            "strip": s.strip(a),
            "bytes": s.length(a),
            "characters": s.length(a, "UTF8_CHAR"),
            "part": s.substr(b, 1, 3),
            "end": s.substr(a, -3, 2, "UTF8_CHAR"),
            "match": s.regex_full_match(a, r"[A-Z].*"),
            "turned": s.regex_replace(a, r"(\w+) (\w+)", r"\2_\1", replace_global=False),
            "same": tf.equal(a, b),
            "all": s.reduce_join(a, separator="|"),
            "number": s.to_number(b),
            "bucket": s.to_hash_bucket_fast(a, 1000),
            "rounded": s.as_string(tf.cast(n, tf.float32) / 3, precision=2),
        }


class Runs(tf.Module):
    """Runs of words, in rows of different lengths."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
    def call(self, text: Any) -> Any:
        rows = tf.strings.split(text, sep=",")
        runs = tf.strings.ngrams(rows, (1, 3), separator="_")
        padded = tf.strings.ngrams(rows, 2, pad_values=("<", ">"))
        return {"runs": runs.to_tensor("~"), "counts": runs.row_lengths(),
                "padded": padded.to_tensor("")}  # fmt: skip


def models(folder: Path) -> Iterator[tuple[str, Any, Feeds]]:
    """Each model with what it is called with."""
    texts = {"text": TEXTS}
    steps = (layers.Embedding(30, 4), layers.GlobalAveragePooling1D(), layers.Dense(2))
    numbers = vectorization(output_sequence_length=6)
    yield "vectorized", sequential("text", (), numbers, *steps), texts
    for mode in ("multi_hot", "count", "tf_idf"):
        counts = vectorization(output_mode=mode, ngrams=2)
        yield f"vectorized_{mode}", sequential("text", (), counts, layers.Dense(3)), texts
    lookup = layers.StringLookup(vocabulary=["red", "green", "blue"], num_oov_indices=2)
    embedded = sequential("colour", (2,), lookup, layers.Embedding(8, 3))
    yield "embedded", embedded, {"colour": COLOURS}
    yield "structured", *structured()
    yield "classes", Classes(), {"x": RNG.normal(size=(3, 4)).astype(np.float32)}
    path = folder / "words.txt"
    path.write_text("the\ncat\ndog\nsat\n")
    yield "vocabulary", Vocabulary(str(path)), texts
    feeds = {
        "a": np.array(["  Hello wörld ", "ABCé def", "xyz123"]),
        "b": np.array(["1.5", "-2e3", "7"]),
        "n": np.array([1, -2, 30], np.int32),
    }
    yield "strings", Strings(), feeds
    yield "runs", Runs(), {"text": np.array(["a,b,c,d", "", "x,y"])}


def stored(array: Any) -> np.ndarray:
    """A result as an array without objects."""
    array = np.asarray(array)
    if array.dtype.kind not in "OS":
        return array
    return np.array([v.decode() for v in array.reshape(-1)]).reshape(array.shape)


def files(folder: Path) -> dict[str, np.ndarray]:
    """All files of a folder."""
    listed = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "fingerprint.pb":
            data = _stripped(path) if path.name == "saved_model.pb" else path.read_bytes()
            listed[f"file_{path.relative_to(folder)}"] = np.frombuffer(data, np.uint8)
    return listed


def case(model: Any, feeds: Feeds, folder: Path) -> dict[str, np.ndarray]:
    """The files of a SavedModel, its inputs and its outputs."""
    if isinstance(model, keras.Model):
        model.export(str(folder), verbose=False)
    else:
        tf.saved_model.save(model, str(folder), {"serving_default": model.call})
    return files(folder) | answers(folder, feeds)


def answers(folder: Path, feeds: Feeds) -> dict[str, np.ndarray]:
    """What TensorFlow makes of a SavedModel."""
    function = tf.saved_model.load(str(folder)).signatures["serving_default"]
    results = function(**{name: tf.constant(feed) for name, feed in feeds.items()})
    made = {f"in_{name}": feed for name, feed in feeds.items()}
    return made | {f"out_{name}": stored(result.numpy()) for name, result in results.items()}


def first_generation(folder: Path) -> dict[str, np.ndarray]:
    """A table of TensorFlow 1, which an operator of the file fills."""
    asked = np.array(["A", "b", "c"])
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.string, [None], "x")
        pairs = tf.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1.5, 2.5]))
        table = v1.lookup.StaticHashTable(pairs, -1.0)
        scale = v1.get_variable("scale", (), initializer=tf.constant_initializer(2.0))
        y = table.lookup(tf.strings.lower(x)) * scale
        session.run([v1.global_variables_initializer(), v1.tables_initializer()])
        filled = v1.tables_initializer()
        v1.saved_model.simple_save(session, str(folder), {"x": x}, {"y": y}, filled)
        result = session.run(y, {x: asked})
    return files(folder) | {"in_x": asked, "out_y": result}


def others(folder: Path) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """The classes as a file of TensorFlow Lite, and of TensorFlow.js."""
    feeds = {"x": RNG.normal(size=(3, 4)).astype(np.float32)}
    saved = folder / "saved"
    module = Classes()
    tf.saved_model.save(module, str(saved), {"serving_default": module.call})
    made = answers(saved, feeds)
    lite = tf.lite.TFLiteConverter.from_saved_model(str(saved)).convert()
    yield "lite", {"file_model.tflite": np.frombuffer(lite, np.uint8)} | made
    yield "lite_custom", custom(folder / "custom")
    # Its converter imports what only decision forests and functions of JAX need.
    for name in ("tensorflow_decision_forests", "jax", "jax.experimental"):
        sys.modules.setdefault(name, types.ModuleType(name))
    sys.modules["jax.experimental"].jax2tf = None  # type: ignore[attr-defined]
    from tensorflowjs.converters.tf_saved_model_conversion_v2 import convert_tf_saved_model

    convert_tf_saved_model(str(saved), str(folder / "web"))
    yield "web", files(folder / "web") | made


def custom(folder: Path) -> dict[str, np.ndarray]:
    """A file of TensorFlow Lite whose operator is none of its own."""

    class Buckets(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([None], tf.string, "text")])
        def call(self, text: Any) -> Any:
            return {"bucket": tf.strings.to_hash_bucket_fast(text, 1000)}

    tf.saved_model.save(module := Buckets(), str(folder), {"serving_default": module.call})
    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.allow_custom_ops = True
    file = np.frombuffer(converter.convert(), np.uint8)
    return {"file_model.tflite": file} | answers(folder, {"text": TEXTS})


def main() -> None:
    """Write all of them."""
    made = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for title, model, feeds in models(folder):
            made[title] = case(model, feeds, folder / title)
        made["first_generation"] = first_generation(folder / "first")
        made |= dict(others(folder))
    write(DATA / "texts.npz", made)


if __name__ == "__main__":
    main()
