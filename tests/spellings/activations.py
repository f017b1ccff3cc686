"""Activations, as exporters write them in parts."""

from __future__ import annotations

from tests.spellings.form import Form, forms

X = "x[N,8]"
IMAGE = "x[N,4,H,W]"

GELU = forms(
    *("Gelu", X, "Gelu"),
    ("torch TorchScript", "y = x * (Erf(x / 1.4142135381698608) + 1.0) * 0.5"),
    ("torch dynamo", "y = (x * 0.5) * (Erf(x * 0.7071067811865476) + 1.0)"),
    ("tf2onnx", "y = (0.5 * x) * (1.0 + Erf(x / 1.4142135))"),
    ("Keras", "y = x * (0.5 * (1.0 + Erf(x * 0.70710677)))"),
    ("Keras 3", "y = 0.5 * x * (Erf(x / Sqrt(2.0)) + 1.0)"),
    ("JAX", "y = (x * (Erf(x * 0.70710677) + 1.0)) / 2.0"),
    ("JAX erfc", "y = 0.5 * x * (1.0 - Erf(-x * 0.70710677))"),
    ("PaddlePaddle", "y = 0.5 * (x * (1.0 + Erf(x / 1.4142135)))"),
    ("MXNet", "y = x * ((Erf(x / 1.4142135) + 1.0) * 0.5)"),
    ("half before the sum", "y = x * (0.5 + 0.5 * Erf(x * 0.70710677))"),
    ("half of each term", "y = 0.5 * x + 0.5 * x * Erf(x * 0.70710677)"),
    ("half x in a name", "h = 0.5 * x\ny = h + h * Erf(x * 0.70710677)"),
    ("x beside its product", "y = 0.5 * (x + x * Erf(x / 1.4142135))"),
    ("TFLite", "y = (x * 0.5) * (Erf(x * 0.7071068) + 1.0)"),
    ("normal distribution", "y = x * ((1.0 + Erf(x / 1.4142135)) / 2.0)"),
)
TANH_GELU = forms(
    *("Gelu (tanh)", X, "Gelu"),
    (
        "torch TorchScript",
        "y = (x * 0.5) * (Tanh(0.7978845608 * (x + 0.044715 * x * x * x)) + 1.0)",
    ),
    ("torch dynamo", "y = (x * 0.5) * (1.0 + Tanh((x + (x * x * x) * 0.044715) * 0.7978845608))"),
    ("GPT-2", "y = 0.5 * x * (1.0 + Tanh(0.7978845608 * (x + 0.044715 * x ** 3.0)))"),
    (
        "Hugging Face gelu_fast",
        "y = 0.5 * x * (1.0 + Tanh(x * 0.7978845608 * (1.0 + 0.044715 * x * x)))",
    ),
    (
        "Hugging Face gelu_fast, grouped",
        "y = 0.5 * x * (1.0 + Tanh((x * 0.7978845608) * (1.0 + (0.044715 * x) * x)))",
    ),
    (
        "Bloom",
        "y = x * 0.5 * (1.0 + Tanh(0.79788456 * x * (1.0 + 0.044715 * x * x)))",
    ),
    ("tf2onnx", "y = x * (0.5 * (1.0 + Tanh(0.7978846 * (x + 0.044715 * Pow(x, 3.0)))))"),
    ("Keras", "y = 0.5 * x * (1.0 + Tanh(0.7978846 * (x + 0.044715 * (x * x * x))))"),
    ("JAX", "y = x * (0.5 * (1.0 + Tanh(0.7978846 * (x + 0.044715 * (x * x * x)))))"),
    ("JAX integer_pow", "y = x * ((Tanh((x + 0.044715 * Pow(x, 3)) * 0.7978846) + 1.0) * 0.5)"),
    ("PaddlePaddle", "y = (1.0 + Tanh(0.7978846 * (x + 0.044715 * x ** 3.0))) * x * 0.5"),
    ("products put together", "y = 0.5 * x * (1.0 + Tanh(x * (0.7978846 + 0.0356774 * x * x)))"),
    (
        "products put together, cubed",
        "y = 0.5 * x * (1.0 + Tanh(0.7978846 * x + 0.0356774 * x ** 3.0))",
    ),
    (
        "half of each term",
        "h = 0.5 * x\ny = h + h * Tanh(0.7978846 * (x + 0.044715 * x * x * x))",
    ),
    (
        "half before the sum",
        "y = x * (0.5 + 0.5 * Tanh(0.7978846 * (x + 0.044715 * x * x * x)))",
    ),
)
SWISH = [
    *forms(
        *("Silu", X, "Swish"),
        ("torch TorchScript", "y = x * Sigmoid(x)"),
        ("torch dynamo", "y = Sigmoid(x) * x"),
        ("x / (1 + e⁻ˣ)", "y = x / (1.0 + Exp(-x))"),
        ("JAX", "y = x * (1.0 / (1.0 + Exp(-x)))"),
        ("JAX reciprocal", "y = x * Reciprocal(Exp(-x) + 1.0)"),
        ("tf2onnx", "y = x / (Exp(Neg(x)) + 1.0)"),
        ("PaddlePaddle", "y = Mul(Sigmoid(x), x)"),
        ("MXNet", "y = x * (1.0 / (Exp(x * -1.0) + 1.0))"),
        ("0 - x", "y = x / (1.0 + Exp(0.0 - x))"),
        ("tanh halves", "y = x * (0.5 * (Tanh(0.5 * x) + 1.0))"),
        ("tanh halves, added", "y = x * (0.5 * Tanh(x * 0.5) + 0.5)"),
    ),
    *forms(
        *("Swish (β)", X, "Swish"),
        ("tf2onnx", "y = x * Sigmoid(1.702 * x)"),
        ("Hugging Face quick_gelu", "y = x * Sigmoid(x * 1.702)"),
        ("JAX", "y = x / (1.0 + Exp(-(x * 1.702)))"),
        ("negative factor", "y = x / (1.0 + Exp(x * -1.702))"),
    ),
]
SIGMOID = forms(
    *("Sigmoid", X, "Sigmoid"),
    ("JAX", "y = 1.0 / (1.0 + Exp(-x))"),
    ("JAX reciprocal", "y = Reciprocal(1.0 + Exp(-x))"),
    ("tf2onnx", "y = 1.0 / (Exp(Neg(x)) + 1.0)"),
    ("MXNet", "y = Reciprocal(Exp(x * -1.0) + 1.0)"),
    ("tanh halves", "y = 0.5 * (Tanh(0.5 * x) + 1.0)"),
    ("tanh halves, added", "y = 0.5 * Tanh(0.5 * x) + 0.5"),
)
HARD = [
    *forms(
        *("HardSigmoid", X, "HardSigmoid"),
        ("torch TorchScript", "y = Clip(x + 3.0, 0.0, 6.0) / 6.0"),
        ("torch dynamo", "y = Min(Max(x + 3.0, 0.0), 6.0) / 6.0"),
        ("tf2onnx", "y = Clip(x * 0.2 + 0.5, 0.0, 1.0)"),
        ("Keras", "y = Min(Max(0.2 * x + 0.5, 0.0), 1.0)"),
        ("Keras 3", "y = Min(Relu(x + 3.0), 6.0) * 0.16666667"),
        ("PaddlePaddle", "y = Clip(0.1666667 * x + 0.5, 0.0, 1.0)"),
        ("JAX", "y = Min(Relu(x + 3.0), 6.0) / 6.0"),
        ("MXNet", "y = Clip(x / 5.0 + 0.5, 0.0, 1.0)"),
        low=-5.0,
        high=5.0,
    ),
    *forms(
        *("HardSwish", X, "HardSwish"),
        ("torch TorchScript", "y = x * HardSigmoid(x, alpha=0.16666667, beta=0.5)"),
        ("torch dynamo", "y = x * Clip(x + 3.0, 0.0, 6.0) / 6.0"),
        ("MobileNetV3 of torch", "y = x * (Clip(x + 3.0, 0.0, 6.0) / 6.0)"),
        ("tf2onnx", "y = x * (Clip(x + 3.0, 0.0, 6.0) * 0.16666667)"),
        ("Keras", "y = x * (Min(Relu(x + 3.0), 6.0) * 0.16666667)"),
        ("Keras Max and Min", "y = Min(Max(x + 3.0, 0.0), 6.0) / 6.0 * x"),
        ("PaddlePaddle", "y = x * Clip(x + 3.0, 0.0, 6.0) * 0.16666667"),
        ("MXNet", "y = x * Clip(x * 0.16666667 + 0.5, 0.0, 1.0)"),
        ("JAX", "y = x * Min(Relu(x + 3.0), 6.0) / 6.0"),
        low=-5.0,
        high=5.0,
    ),
]
SOFTPLUS = forms(
    *("Softplus", X, "Softplus"),
    ("torch TorchScript", "y = Softplus(x)"),
    ("log(1 + eˣ)", "y = Log(1.0 + Exp(x))"),
    ("JAX logaddexp", "y = Max(x, 0.0) + Log(Exp(-Abs(x)) + 1.0)"),
    ("JAX logaddexp, select", "y = Relu(x) + Log(1.0 + Exp(-Abs(x)))"),
    ("tf2onnx", "y = Log(Exp(x) + 1.0)"),
    ("-log(sigmoid(-x))", "y = -Log(Sigmoid(-x))"),
)
MISH = forms(
    *("Mish", X, "Mish"),
    ("torch TorchScript", "y = x * Tanh(Softplus(x))"),
    ("x · tanh(log(1 + eˣ))", "y = x * Tanh(Log(1.0 + Exp(x)))"),
    ("tf2onnx", "y = Tanh(Softplus(x)) * x"),
    ("YOLOv4 of tf2onnx", "y = x * Tanh(Log(Exp(x) + 1.0))"),
    ("JAX", "y = x * Tanh(Max(x, 0.0) + Log(Exp(-Abs(x)) + 1.0))"),
    ("PaddlePaddle", "y = x * Tanh(Log(Exp(x) + 1.0))"),
    ("n / (n + 2)", "e = Exp(x)\nn = e * (e + 2.0)\ny = x * (n / (n + 2.0))"),
    ("squares of 1 + eˣ", "s = (1.0 + Exp(x)) * (1.0 + Exp(x))\ny = x * ((s - 1.0) / (s + 1.0))"),
)
LEAKY = forms(
    *("LeakyRelu", X, "LeakyRelu"),
    ("torch TorchScript", "y = LeakyRelu(x, alpha=0.1)"),
    ("torch Where", "y = Where(Greater(x, 0.0), x, x * 0.1)"),
    ("Keras Max", "y = Max(x, x * 0.1)"),
    ("tf2onnx", "y = Max(0.1 * x, x)"),
    ("JAX", "y = Where(GreaterOrEqual(x, 0.0), x, 0.1 * x)"),
    ("JAX Less", "y = Where(Less(x, 0.0), 0.1 * x, x)"),
    ("relu and its mirror", "y = Relu(x) - 0.1 * Relu(-x)"),
    ("PRelu of one slope", "y = PRelu(x, [0.1])"),
    ("PaddlePaddle", "y = Max(x, Mul(x, [0.1]))"),
    ("MXNet", "y = LeakyRelu(x, alpha=0.25)"),
)
PRELU = forms(
    *("PRelu", IMAGE, "PRelu"),
    ("torch", "y = PRelu(x, Weights(4, 1, 1))"),
    ("Keras relu(x) + a·(x − |x|)/2", "y = Relu(x) + Weights(4, 1, 1) * (x - Abs(x)) * 0.5"),
    ("Keras, grouped", "y = Relu(x) + Weights(4, 1, 1) * ((x - Abs(x)) * 0.5)"),
    ("Keras −relu(−x)", "y = Relu(x) + -Weights(4, 1, 1) * Relu(-x)"),
    ("Keras 3", "y = Relu(x) - Weights(4, 1, 1) * Relu(-x)"),
    ("tf2onnx", "y = Relu(x) + Weights(1, 4, 1, 1) * (x - Abs(x)) / 2.0"),
    ("Caffe through MXNet", "y = Max(x, 0.0) + Weights(4, 1, 1) * Min(x, 0.0)"),
    ("JAX", "y = Where(GreaterOrEqual(x, 0.0), x, Weights(4, 1, 1) * x)"),
    ("JAX Greater", "y = Where(Greater(x, 0.0), x, x * Weights(4, 1, 1))"),
    ("PaddlePaddle", "y = PRelu(x, Weights(1, 4, 1, 1))"),
)
ELU = [
    *forms(
        *("Elu", X, "Elu"),
        ("torch", "y = Elu(x, alpha=1.0)"),
        ("JAX", "y = Where(Greater(x, 0.0), x, Exp(x) - 1.0)"),
        ("JAX expm1", "y = Where(Greater(x, 0.0), x, Exp(Where(Greater(x, 0.0), 0.0, x)) - 1.0)"),
        ("Keras", "y = Where(Greater(x, 0.0), x, 1.5 * (Exp(x) - 1.0))"),
        ("min and max", "y = Relu(x) + (Exp(Min(x, 0.0)) - 1.0)"),
        ("ELU of PaddlePaddle", "y = Max(0.0, x) + Min(0.0, 1.5 * (Exp(x) - 1.0))"),
    ),
    *forms(
        *("Selu", X, "Selu"),
        ("torch", "y = Selu(x)"),
        ("scaled Elu", "y = 1.0507009873554805 * Elu(x, alpha=1.6732632423543772)"),
        (
            "JAX",
            "y = 1.05070098 * Where(Greater(x, 0.0), x, 1.67326324 * (Exp(x) - 1.0))",
        ),
    ),
]
OTHERS = [
    *forms(
        *("Softsign", X, "Softsign"),
        ("torch", "y = x / (Abs(x) + 1.0)"),
        ("JAX", "y = x / (1.0 + Abs(x))"),
        ("MXNet", "y = x * Reciprocal(1.0 + Abs(x))"),
    ),
    *forms(
        *("Relu", X, "Relu"),
        ("JAX", "y = Max(x, 0.0)"),
        ("torch clamp", "y = Clip(x, 0.0)"),
        ("torch Where", "y = Where(Less(x, 0.0), 0.0, x)"),
        (
            "mask",
            "y = x * Cast(Greater(x, 0.0), to='float')",
        ),
    ),
    # Relu keeps NaN, which this makes 0.
    Form("Relu", "torch Where of NaN", X, "y = Where(Greater(x, 0.0), x, 0.0)", "Greater Where"),
    *forms(
        *("Relu6", X, "Clip"),
        ("torch", "y = Clip(x, 0.0, 6.0)"),
        ("torch dynamo", "y = Min(Max(x, 0.0), 6.0)"),
        ("tf2onnx", "y = Min(Relu(x), 6.0)"),
        ("JAX", "y = Max(Min(x, 6.0), 0.0)"),
        ("Keras", "y = Clip(Relu(x), None, 6.0)"),
        ("MXNet", "y = Clip(Clip(x, 0.0), None, 6.0)"),
        ("two Where", "a = Where(Less(x, 0.0), 0.0, x)\ny = Where(Greater(a, 6.0), 6.0, a)"),
    ),
]
FORMS: list[Form] = [
    *GELU, *TANH_GELU, *SWISH, *SIGMOID, *HARD, *SOFTPLUS, *MISH, *LEAKY, *PRELU, *ELU, *OTHERS,
]  # fmt: skip
