"""A network of Keras with a function and a layer of the user's own: `python -m
tests.models.keras_own` writes `data/keras/own.npz`. Needs keras and a backend.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import keras
import numpy as np

from tests.models.tensorflow_files import write

DATA = Path(__file__).parent / "data" / "keras"
register = keras.saving.register_keras_serializable


@register(package="mine")
class Scaled(keras.layers.Layer):
    """scale · x to a power."""

    def __init__(self, power: int = 2, **options: Any) -> None:
        super().__init__(**options)
        self.power = power

    def build(self, shape: Any) -> None:
        self.scale = self.add_weight(shape=shape[-1:], name="scale", initializer="random_normal")

    def call(self, x: Any) -> Any:
        return self.scale * x**self.power

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "power": self.power}


@register(package="mine")
def divided(x: Any, parts: int = 2) -> Any:
    return x / parts


def main() -> None:
    """Write the file, an input and an output."""
    keras.utils.set_random_seed(0)
    source = keras.Input((3,))
    x = keras.layers.Dense(4)(source)
    x = keras.layers.Lambda(divided, arguments={"parts": 4}, output_shape=(4,))(x)
    model = keras.Model(source, Scaled(3)(x))
    given = np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "own.keras"
        model.save(path)
        data = np.frombuffer(path.read_bytes(), np.uint8)
    made = {"file": data, "x": given, "y": model.predict(given, verbose=0)}
    write(DATA / "own.npz", {"own": made})


if __name__ == "__main__":
    main()
