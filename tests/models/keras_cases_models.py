"""Recurrent layers, attention, masks, and models of several layers, for `make_keras.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.keras_cases import CASES, Case, case, floats, plain, whole

# -- recurrent layers ------------------------------------------------------------------------------

SEQUENCES = (5, 3)
VARIANTS: dict[str, dict[str, Any]] = {
    "last": {},
    "all": {"return_sequences": True},
    "back": {"return_sequences": True, "go_backwards": True},
    "state": {"return_sequences": True, "return_state": True, "use_bias": False},
    "relu": {"activation": "relu", "return_sequences": True},
    "elu": {"activation": "elu", "return_state": True},
}
for name in ("LSTM", "GRU", "SimpleRNN"):
    for tag, options in VARIANTS.items():
        plain(name, SEQUENCES, tag, units=4, **options)
plain("LSTM", SEQUENCES, "hard", units=4, recurrent_activation="hard_sigmoid")
plain("GRU", SEQUENCES, "before", units=4, reset_after=False)
plain("GRU", SEQUENCES, "before-elu", units=4, reset_after=False, activation="elu")
plain("LSTM", SEQUENCES, "unroll", units=4, unroll=True)
plain("LSTM", SEQUENCES, "half", units=4, dtype="mixed_float16")
case("LSTM-open", [floats((5, 3))], lambda k, x: k.layers.LSTM(4)(x), (1,))
for name, count in (("LSTM", 2), ("GRU", 1), ("SimpleRNN", 1)):
    case(
        f"{name}-initial",
        [floats(SEQUENCES), *(floats((4,)) + i for i in range(count))],
        lambda k, x, *s, name=name: getattr(k.layers, name)(4, return_state=True)(
            x, initial_state=list(s)
        ),
    )
for name in ("LSTM", "GRU", "SimpleRNN"):
    for mode in ("concat", "sum", "mul", "ave", None):
        case(
            f"Bidirectional-{name}-{mode}",
            [floats(SEQUENCES)],
            lambda k, x, name=name, mode=mode: k.layers.Bidirectional(
                getattr(k.layers, name)(4, return_sequences=mode in ("sum", None)), merge_mode=mode
            )(x),
        )
case(
    "Bidirectional-state",
    [floats(SEQUENCES)],
    lambda k, x: k.layers.Bidirectional(k.layers.LSTM(4, return_state=True))(x),
)
case(
    "Bidirectional-other",
    [floats(SEQUENCES)],
    lambda k, x: k.layers.Bidirectional(
        k.layers.LSTM(4), backward_layer=k.layers.GRU(4, go_backwards=True)
    )(x),
)
case(
    "Bidirectional-initial",
    [floats(SEQUENCES), floats((4,)), floats((4,)) + 1],
    lambda k, x, *s: k.layers.Bidirectional(k.layers.GRU(4))(x, initial_state=list(s)),
)
for name in ("LSTM", "GRU", "SimpleRNN"):
    case(
        f"RNN-{name}Cell",
        [floats(SEQUENCES)],
        lambda k, x, name=name: k.layers.RNN(
            getattr(k.layers, f"{name}Cell")(4), return_sequences=True
        )(x),
    )
case(
    "RNN-stacked",
    [floats(SEQUENCES)],
    lambda k, x: k.layers.RNN(
        [k.layers.LSTMCell(4), k.layers.GRUCell(3), k.layers.LSTMCell(2)], return_state=True
    )(x),
)
for count, shape in ((1, (4, 6, 2)), (2, (3, 5, 4, 2)), (3, (2, 3, 4, 3, 2))):
    plain(f"ConvLSTM{count}D", shape, filters=3, kernel_size=3, padding="same")
    plain(f"ConvLSTM{count}D", shape, "valid", filters=3, kernel_size=2, return_sequences=True)
plain(
    "ConvLSTM2D",
    (3, 5, 4, 2),
    "steps",
    filters=3,
    kernel_size=3,
    strides=2,
    return_state=True,
    padding="same",
    go_backwards=True,
)
case(
    "TimeDistributed",
    [floats((3, 4))],
    lambda k, x: k.layers.TimeDistributed(k.layers.Dense(2, activation="relu"))(x),
)
case(
    "TimeDistributed-Conv",
    [floats((3, 6, 5, 2))],
    lambda k, x: k.layers.TimeDistributed(k.layers.Conv2D(4, 3))(x),
)
case(
    "TimeDistributed-open",
    [floats((3, 4))],
    lambda k, x: k.layers.TimeDistributed(k.layers.Dense(2))(x),
    (1,),
)

# -- attention -------------------------------------------------------------------------------------

PAIR = [floats((5, 6)), floats((4, 6)) * 0.5]
for tag, options, arguments in (
    ("plain", {}, {}),
    ("scores", {}, {"return_attention_scores": True}),
    ("causal", {}, {"use_causal_mask": True}),
    ("value", {"value_dim": 5, "output_shape": 7, "use_bias": False}, {}),
    ("dropout", {"dropout": 0.2}, {}),
    ("window", {"sliding_window": 2}, {}),
    ("gate", {"use_gate": True}, {}),
):
    case(
        f"MultiHeadAttention-{tag}",
        PAIR,
        lambda k, q, v, o=options, a=arguments: k.layers.MultiHeadAttention(2, 3, **o)(q, v, **a),
    )
    if tag not in ("value",):
        case(
            f"GroupQueryAttention-{tag}",
            PAIR,
            lambda k, q, v, o=options, a=arguments: k.layers.GroupQueryAttention(3, 4, 2, **o)(
                q, v, **a
            ),
        )
case(
    "MultiHeadAttention-key",
    [*PAIR, floats((4, 3))],
    lambda k, q, key, v: k.layers.MultiHeadAttention(2, 3)(q, v, key),
)
case(
    "MultiHeadAttention-mask",
    [*PAIR, whole((5, 4), 2)],
    lambda k, q, v, m: k.layers.MultiHeadAttention(2, 3)(q, v, attention_mask=m),
)
case(
    "MultiHeadAttention-axes",
    [floats((3, 4, 6))],
    lambda k, x: k.layers.MultiHeadAttention(2, 3, attention_axes=(2,))(x, x),
)
case(
    "MultiHeadAttention-all-axes",
    [floats((3, 4, 6))],
    lambda k, x: k.layers.MultiHeadAttention(2, 3)(x, x),
)
for tag, options in (
    ("dot", {}),
    ("scale", {"use_scale": True}),
    ("concat", {"score_mode": "concat", "use_scale": True}),
):
    case(f"Attention-{tag}", PAIR, lambda k, *x, o=options: k.layers.Attention(**o)(list(x)))
    case(
        f"Attention-{tag}-causal",
        PAIR,
        lambda k, *x, o=options: k.layers.Attention(**o)(
            list(x), use_causal_mask=True, return_attention_scores=True
        ),
    )
case("AdditiveAttention", PAIR, lambda k, *x: k.layers.AdditiveAttention()(list(x)))
case(
    "AdditiveAttention-plain",
    [*PAIR, floats((4, 6))],
    lambda k, *x: k.layers.AdditiveAttention(use_scale=False)(list(x)),
)

# -- masks -----------------------------------------------------------------------------------------

TOKENS = np.array([[3, 1, 0, 2, 0], [0, 0, 0, 0, 0]], np.int32)


def _embedded(k: Any, x: Any) -> Any:
    return k.layers.Embedding(5, 4, mask_zero=True)(x)


for name in ("LSTM", "GRU", "SimpleRNN"):
    for tag, options in (
        *list(VARIANTS.items())[:4],
        ("zero", {"return_sequences": True, "zero_output_for_mask": True}),
    ):
        case(
            f"mask-{name}-{tag}",
            [TOKENS],
            lambda k, x, name=name, o=options: getattr(k.layers, name)(3, **o)(_embedded(k, x)),
        )
case(
    "mask-stacked-lstm",
    [TOKENS],
    lambda k, x: k.layers.LSTM(3)(
        k.layers.Dropout(0.5)(k.layers.LSTM(4, return_sequences=True)(_embedded(k, x)))
    ),
)
case(
    "mask-bidirectional",
    [TOKENS],
    lambda k, x: k.layers.GRU(2)(
        k.layers.Bidirectional(k.layers.LSTM(3, return_sequences=True))(_embedded(k, x))
    ),
)
case(
    "mask-lost", [TOKENS], lambda k, x: k.layers.LSTM(3)(k.layers.Reshape((5, 4))(_embedded(k, x)))
)
case(
    "mask-pool",
    [TOKENS[:1].repeat(2, 0)],
    lambda k, x: k.layers.GlobalAveragePooling1D()(k.layers.Dense(3)(_embedded(k, x))),
)
case(
    "mask-Masking",
    [floats((5, 3)) * (TOKENS > 0)[..., None]],
    lambda k, x: k.layers.LSTM(3, return_sequences=True)(k.layers.Masking()(x)),
)
for name in ("Add", "Concatenate"):
    case(
        f"mask-{name}",
        [TOKENS, TOKENS[:, ::-1].copy()],
        lambda k, a, b, name=name: k.layers.GRU(3)(
            getattr(k.layers, name)()([_embedded(k, a), _embedded(k, b)])
        ),
    )
case(
    "mask-Concatenate-1",
    [TOKENS, floats((2, 4))],
    lambda k, a, b: k.layers.GRU(3)(k.layers.Concatenate(axis=1)([_embedded(k, a), b])),
)
case(
    "mask-attention",
    [TOKENS],
    lambda k, x: k.layers.MultiHeadAttention(2, 3)(*[_embedded(k, x)] * 2),
)
case(
    "mask-attention-dropout",
    [TOKENS],
    lambda k, x: k.layers.MultiHeadAttention(2, 3, dropout=0.1)(*[_embedded(k, x)] * 2),
)


def _transformer(k: Any, x: Any) -> Any:
    e = _embedded(k, x)
    y = k.layers.Add()([e, k.layers.MultiHeadAttention(2, 3)(e, e, use_causal_mask=True)])
    y = k.layers.LayerNormalization()(y)
    y = k.layers.Add()([y, k.layers.Dense(4)(k.layers.Dense(8, activation="gelu")(y))])
    return k.layers.GRU(3)(y)


case("mask-transformer", [TOKENS], _transformer)
case(
    "mask-Attention",
    [TOKENS, TOKENS[:, ::-1].copy()],
    lambda k, a, b: k.layers.GRU(3)(k.layers.Attention()([_embedded(k, a), _embedded(k, b)])),
)
case(
    "mask-Softmax",
    [floats((3, 4)), whole((3, 4), 2)],
    lambda k, x, m: k.layers.Softmax()(x, mask=k.ops.cast(m, "bool")),
)
case(
    "mask-TimeDistributed",
    [TOKENS],
    lambda k, x: k.layers.GRU(3)(k.layers.TimeDistributed(k.layers.Dense(3))(_embedded(k, x))),
)
case(
    "mask-explicit",
    [floats((5, 3)), whole((5,), 2)],
    lambda k, x, m: k.layers.LSTM(3)(x, mask=k.ops.cast(m, "bool")),
)

# -- models ----------------------------------------------------------------------------------------


def sequential(k: Any) -> Case:
    model = k.Sequential(
        [
            k.layers.Input((8, 7, 3)),
            k.layers.Conv2D(4, 3, activation="relu"),
            k.layers.BatchNormalization(),
            k.layers.MaxPooling2D(),
            k.layers.Flatten(),
            k.layers.Dense(3, activation="softmax"),
        ]
    )
    return model, [floats((8, 7, 3))]


def built(k: Any) -> Case:
    model = k.Sequential([k.layers.Dense(3), k.layers.Dense(2)])
    model.build((None, 4))
    return model, [floats((4,))]


def siamese(k: Any) -> Case:
    dense = k.layers.Dense(3, activation="relu")
    inner = k.Sequential([k.layers.Dense(5), k.layers.BatchNormalization(), dense], name="tower")
    a, b = k.Input((4,), name="left"), k.Input((4,), name="right")
    x, y = inner(a), inner(b)
    model = k.Model(
        {"left": a, "right": b},
        {"sum": x + y, "apart": k.layers.Subtract()([x, k.layers.Dense(3)(y)])},
    )
    return model, [floats((4,)), floats((4,)) + 1]


def nested(k: Any) -> Case:
    a = k.Input((4,))
    b = k.Input((4,))
    inner = k.Model([a, b], [k.layers.Dense(2)(a), k.layers.Dense(3)(k.layers.Add()([a, b]))])
    x = k.Input((4,), name="x")
    first, second = inner([x, k.layers.Dense(4)(x)])
    middle = k.Model(x, [second, first])
    y = k.Input((4,), name="y")
    model = k.Model(y, [*middle(y), k.layers.Activation("relu")(y)])
    model.layers[1].trainable = False
    return model, [floats((4,))]


def twice(k: Any) -> Case:
    i = k.Input((4,))
    inner = k.Model(i, k.layers.Dense(4)(i), name="inner")
    x = k.Input((4,), name="x")
    y = inner(x)
    z = inner(y)
    model = k.Model(x, [k.layers.Subtract()([y, z]), z, y])
    return model, [floats((4,))]


for model in (sequential, built, siamese, nested, twice):
    CASES[f"model-{model.__name__}"] = model
