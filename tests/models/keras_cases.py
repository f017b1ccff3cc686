"""Layers of Keras by themselves: `CASES[name](keras)` gives a model and its inputs.

Nothing here imports Keras: `make_keras.py` passes it, and writes what it computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Case = tuple[Any, list[np.ndarray]]
CASES: dict[str, Callable[[Any], Case]] = {}
"""For Keras 3."""
BATCH = 2


def floats(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(7).uniform(-2, 2, (BATCH, *shape)).astype(np.float32)


def whole(shape: tuple[int, ...], high: int = 5) -> np.ndarray:
    return np.random.default_rng(7).integers(0, high, (BATCH, *shape)).astype(np.int32)


def case(
    name: str, feeds: list[np.ndarray], build: Callable[..., Any], open_axes: tuple[int, ...] = ()
) -> None:
    """`build(keras, *inputs)` gives the outputs; `open_axes`: further axes of unknown size."""

    def make(keras: Any) -> Case:
        inputs = [
            keras.Input(
                tuple(None if i + 1 in open_axes else n for i, n in enumerate(feed.shape[1:])),
                dtype=feed.dtype.name,
                name=f"x{number}",
            )
            for number, feed in enumerate(feeds)
        ]
        return keras.Model(inputs, build(keras, *inputs)), feeds

    assert name not in CASES, name
    CASES[name] = make


def plain(layer: str, shape: tuple[int, ...], tag: str = "", **options: Any) -> None:
    """A layer with these options on floats."""
    name = f"{layer}-{tag}" if tag else layer
    case(name, [floats(shape)], lambda k, x: getattr(k.layers, layer)(**options)(x))


# -- products --------------------------------------------------------------------------------------

plain("Dense", (4,), units=3)
plain("Dense", (3, 4), "3d-relu", units=3, activation="relu")
plain("Dense", (4,), "plain", units=3, use_bias=False)
plain("EinsumDense", (4,), equation="ab,bc->ac", output_shape=3, bias_axes="c")
plain(
    "EinsumDense",
    (3, 4),
    "heads",
    equation="abc,cde->abde",
    output_shape=(None, 2, 5),
    bias_axes="de",
)
plain("EinsumDense", (3, 4), "back", equation="abc,bcd->ad", output_shape=5)
plain("EinsumDense", (3, 4), "dots", equation="...x,xy->...y", output_shape=5, bias_axes="y")
plain("EinsumDense", (3, 4), "middle", equation="abc,bd->adc", output_shape=(6, 4), bias_axes="d")
case("Embedding", [whole((3,))], lambda k, x: k.layers.Embedding(5, 4)(x))
case("Embedding-float", [floats((3,)) * 0 + 2], lambda k, x: k.layers.Embedding(5, 4)(x))
for policy in ("mixed_float16", "mixed_bfloat16", "float64", "float16", "bfloat16"):
    plain("Dense", (4,), policy, units=3, activation="tanh", dtype=policy)
    plain("BatchNormalization", (3, 4), policy, dtype=policy)


def quantized(keras: Any) -> Case:
    inputs = keras.Input((4,), name="x0")
    y = keras.layers.Dense(3, activation="relu", name="a")(inputs)
    model = keras.Model(inputs, keras.layers.Dense(2, name="b")(y))
    model.quantize("int8")
    return model, [floats((4,))]


CASES["Dense-int8"] = quantized

# -- activations -----------------------------------------------------------------------------------

for name in (
    "celu",
    "elu",
    "exponential",
    "gelu",
    "glu",
    "hard_shrink",
    "hard_sigmoid",
    "hard_silu",
    "hard_swish",
    "hard_tanh",
    "leaky_relu",
    "linear",
    "log_sigmoid",
    "log_softmax",
    "mish",
    "relu",
    "relu6",
    "selu",
    "sigmoid",
    "silu",
    "soft_shrink",
    "softmax",
    "softplus",
    "softsign",
    "sparse_plus",
    "sparse_sigmoid",
    "sparsemax",
    "squareplus",
    "swish",
    "tanh",
    "tanh_shrink",
    "threshold",
):
    if name != "threshold":
        plain("Activation", (3, 4), name, activation=name)
plain("ReLU", (4,))
plain("ReLU", (4,), "max", max_value=1.0)
plain("ReLU", (4,), "all", max_value=1.5, negative_slope=0.1, threshold=0.5)
plain("LeakyReLU", (4,))
plain("LeakyReLU", (4,), "slope", negative_slope=0.05)
plain("ELU", (4,), alpha=0.7)
plain("PReLU", (3, 4))
plain("PReLU", (3, 4), "shared", shared_axes=[1])
plain("Softmax", (3, 4))
plain("Softmax", (3, 4), "axis", axis=1)
plain("Softmax", (3, 4), "axes", axis=[1, 2])

# -- convolutions ----------------------------------------------------------------------------------

IMAGES = {1: (9, 3), 2: (8, 7, 3), 3: (5, 6, 4, 2)}
CONVOLUTIONS: dict[str, dict[str, Any]] = {
    "valid": {"padding": "valid"},
    "same": {"padding": "same"},
    "same-2": {"padding": "same", "strides": 2, "activation": "relu"},
    "valid-2": {"padding": "valid", "strides": 2, "use_bias": False},
    "gaps": {"padding": "same", "dilation_rate": 2},
}
for count, shape in IMAGES.items():
    for tag, options in CONVOLUTIONS.items():
        plain(f"Conv{count}D", shape, tag, filters=4, kernel_size=3, **options)
        if count < 3:
            plain(f"SeparableConv{count}D", shape, tag, filters=4, kernel_size=3, **options)
            plain(
                f"DepthwiseConv{count}D", shape, tag, kernel_size=3, depth_multiplier=2, **options
            )
        if tag != "gaps":
            plain(f"Conv{count}DTranspose", shape, tag, filters=4, kernel_size=3, **options)
plain("Conv1D", (9, 4), "groups", filters=6, kernel_size=3, groups=2)
plain("Conv1D", (9, 4), "causal", filters=6, kernel_size=3, padding="causal", dilation_rate=2)
plain("Conv2D", (8, 7, 4), "groups", filters=6, kernel_size=(3, 2), groups=2, padding="same")
plain("Conv2DTranspose", (4, 5, 3), "out", filters=4, kernel_size=3, strides=2, output_padding=1)
plain(
    "Conv2DTranspose",
    (4, 5, 3),
    "out-same",
    filters=4,
    kernel_size=4,
    strides=3,
    output_padding=1,
    padding="same",
)
plain("Conv2DTranspose", (4, 5, 3), "small", filters=4, kernel_size=1, strides=3)
plain(
    "Conv2DTranspose", (4, 5, 3), "small-same", filters=4, kernel_size=1, strides=2, padding="same"
)
for tag in ("same", "same-2", "valid"):
    case(
        f"Conv2D-open-{tag}",
        [floats((8, 7, 3))],
        lambda k, x, tag=tag: k.layers.Conv2D(4, 3, **CONVOLUTIONS[tag])(x),
        (1, 2),
    )
case(
    "Conv2DTranspose-open",
    [floats((4, 5, 3))],
    lambda k, x: k.layers.Conv2DTranspose(4, 3, strides=2, padding="same")(x),
    (1, 2),
)

# -- windows ---------------------------------------------------------------------------------------

for count, shape in IMAGES.items():
    for kind in ("Max", "Average"):
        plain(f"{kind}Pooling{count}D", shape, pool_size=2)
        plain(f"{kind}Pooling{count}D", shape, "same", pool_size=3, strides=2, padding="same")
        plain(f"{kind}Pooling{count}D", shape, "first", pool_size=2, data_format="channels_first")
        plain(f"Global{kind}Pooling{count}D", shape)
        plain(f"Global{kind}Pooling{count}D", shape, "keep", keepdims=True)
        plain(f"Global{kind}Pooling{count}D", shape, "first", data_format="channels_first")
        plain(f"Adaptive{kind}Pooling{count}D", shape, output_size=2)
        plain(f"Adaptive{kind}Pooling{count}D", shape, "3", output_size=3)
    plain(f"UpSampling{count}D", shape, size=3)
    plain(f"ZeroPadding{count}D", shape, padding=2)
    plain(f"Cropping{count}D", shape, cropping=1)
plain("UpSampling2D", (4, 5, 3), "bilinear", size=(2, 3), interpolation="bilinear")
plain("UpSampling2D", (4, 5, 3), "bicubic", size=2, interpolation="bicubic")
plain("UpSampling2D", (3, 4, 5), "first", size=(2, 3), data_format="channels_first")
plain("ZeroPadding1D", (5, 3), "both", padding=(1, 2))
plain("ZeroPadding2D", (5, 4, 3), "both", padding=((1, 2), (0, 3)))
plain("ZeroPadding2D", (3, 5, 4), "first", padding=(1, 2), data_format="channels_first")
plain("Cropping1D", (5, 3), "both", cropping=(0, 2))
plain("Cropping2D", (5, 6, 3), "both", cropping=((1, 2), (0, 3)))

# -- normalizations --------------------------------------------------------------------------------

plain("BatchNormalization", (5, 4, 3))
plain("BatchNormalization", (4,), "rows", scale=False)
plain("BatchNormalization", (3, 5, 4), "axis", axis=1, center=False, epsilon=0.1)
plain("LayerNormalization", (3, 4))
plain("LayerNormalization", (3, 4), "axes", axis=[1, 2], epsilon=0.1)
plain("LayerNormalization", (3, 4), "first", axis=1)
plain("LayerNormalization", (3, 4), "plain", scale=False, center=False)
plain("LayerNormalization", (3, 4), "rms", rms_scaling=True)
plain("RMSNormalization", (3, 4))
plain("GroupNormalization", (5, 4, 6), groups=3)
plain("GroupNormalization", (6, 5, 4), "axis", groups=2, axis=1)
plain("GroupNormalization", (6,), "rows", groups=2)
plain("GroupNormalization", (5, 6), "instance", groups=-1)
plain("UnitNormalization", (3, 4))
plain("UnitNormalization", (3, 4), "first", axis=1)
plain("Normalization", (3, 4), mean=[0.5, 1, 2, 3], variance=[1, 2, 3, 4])
plain("Normalization", (3, 4), "one", axis=None, mean=0.5, variance=2.0)
plain("Normalization", (3, 4), "invert", mean=[0.5, 1, 2, 3], variance=[1, 2, 3, 4], invert=True)


def adapted(k: Any, x: Any) -> Any:
    layer = k.layers.Normalization()
    layer.adapt(floats((3, 4)) + 1)
    return layer(x)


case("Normalization-adapted", [floats((3, 4))], adapted)
case(
    "SpectralNormalization",
    [floats((4,))],
    lambda k, x: k.layers.SpectralNormalization(k.layers.Dense(3))(x),
)

# -- merging and movement --------------------------------------------------------------------------

for name in ("Add", "Subtract", "Multiply", "Average", "Maximum", "Minimum"):
    case(
        name,
        [floats((3, 4)), floats((3, 4)) + 1],
        lambda k, *x, name=name: getattr(k.layers, name)()(list(x)),
    )
case("Add-ranks", [floats((4,)), floats((3, 4))], lambda k, *x: k.layers.Add()(list(x)))
case("Add-three", [floats((4,))] * 3, lambda k, *x: k.layers.Add()(list(x)))
case("Concatenate", [floats((3, 4)), floats((3, 2))], lambda k, *x: k.layers.Concatenate()(list(x)))
case(
    "Concatenate-1",
    [floats((3, 4)), floats((2, 4))],
    lambda k, *x: k.layers.Concatenate(axis=1)(list(x)),
)
for tag, shapes, axes in (
    ("rows", ((4,), (4,)), 1),
    ("2", ((3, 4), (5, 4)), 2),
    ("mixed", ((3, 4), (4,)), (2, 1)),
    ("12", ((3, 4), (5, 3)), (1, 2)),
    ("four", ((3, 2, 4), (4, 5)), (3, 1)),
):
    for normalize in (False, True):
        case(
            f"Dot-{tag}-{normalize}",
            [floats(shape) for shape in shapes],
            lambda k, *x, a=axes, n=normalize: k.layers.Dot(axes=a, normalize=n)(list(x)),
        )
plain("Reshape", (3, 4), target_shape=(2, 6))
plain("Reshape", (3, 4), "left", target_shape=(-1, 2))
case("Reshape-open", [floats((6, 4))], lambda k, x: k.layers.Reshape((-1, 2, 4))(x), (1,))
plain("Permute", (3, 4, 5), dims=(3, 1, 2))
plain("Flatten", (3, 4, 5))
plain("Flatten", (3, 4, 5), "first", data_format="channels_first")
plain("RepeatVector", (4,), n=3)
for name in ("Dropout", "GaussianNoise", "GaussianDropout", "SpatialDropout1D", "AlphaDropout"):
    plain(name, (3, 4), **({"stddev": 0.3} if name == "GaussianNoise" else {"rate": 0.3}))
plain("ActivityRegularization", (3, 4), l1=0.1)
plain("Identity", (3, 4))

# -- images and features ---------------------------------------------------------------------------

plain("Rescaling", (4, 5, 3), scale=1 / 127.5, offset=-1)
plain("Rescaling", (4, 5, 3), "list", scale=[1.0, 2.0, 3.0], offset=[0.0, 1.0, 2.0])
case("Rescaling-int", [whole((4, 5, 3), 255)], lambda k, x: k.layers.Rescaling(1 / 255)(x))
for kind in ("bilinear", "nearest", "bicubic"):
    plain("Resizing", (5, 7, 3), kind, height=8, width=4, interpolation=kind)
    # Other sizes for bicubic: TensorFlow takes its weights from a table of 1024 places.
    size = 10 if kind == "bicubic" else 6
    plain(
        "Resizing",
        (5, 7, 3),
        f"{kind}-crop",
        height=size,
        width=size,
        interpolation=kind,
        crop_to_aspect_ratio=True,
    )
plain("CenterCrop", (5, 8, 3), height=3, width=4)
plain("CenterCrop", (5, 8, 3), "larger", height=6, width=4)
for name, options in (
    ("RandomFlip", {}),
    ("RandomRotation", {"factor": 0.2}),
    ("RandomZoom", {"height_factor": 0.2}),
    ("RandomContrast", {"factor": 0.2}),
    ("RandomTranslation", {"height_factor": 0.2, "width_factor": 0.2}),
    ("RandomBrightness", {"factor": 0.2}),
):
    plain(name, (4, 5, 3), **options)
for mode in ("one_hot", "multi_hot", "count"):
    case(
        f"CategoryEncoding-{mode}",
        [whole((1,) if mode == "one_hot" else (3,))],
        lambda k, x, mode=mode: k.layers.CategoryEncoding(5, output_mode=mode)(x),
    )
    case(
        f"Discretization-{mode}",
        [floats((1,))],
        lambda k, x, m=mode: k.layers.Discretization([-1.0, 0.0, 1.0], output_mode=m)(x),
    )
plain("Discretization", (3,), bin_boundaries=[-1.0, 0.0, 1.0])
case(
    "IntegerLookup", [whole((3,), 9)], lambda k, x: k.layers.IntegerLookup(vocabulary=[3, 5, 7])(x)
)
