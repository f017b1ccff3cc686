"""Live objects of frameworks: which reader takes one, or which call makes a graph of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from infuse.errors import InputError
from infuse.frontends.signatures import required_arguments
from infuse.ir.graph import Graph

_ESTIMATORS: Final = ("sklearn", "xgboost", "lightgbm", "catboost")
_KERAS: Final = ("keras", "tf_keras", "tensorflow.python.keras")


def load_object(source: Any) -> Graph:
    """The graph of an object that says all by itself: a proto of ONNX, an ExportedProgram, a fitted
    estimator, a graph. InputError for others, with the call that makes a graph of them.
    """
    if isinstance(source, Graph):
        return source
    library = type(source).__module__.partition(".")[0]
    if library == "torch" and _class_of(source, "torch.export") is not None:
        from infuse.frontends import torch

        return torch.from_torch(source)
    if library in _ESTIMATORS:
        from infuse.frontends import sklearn

        is_booster = type(source).__name__ == "Booster"
        return sklearn.booster_graph(source) if is_booster else sklearn.load(source)
    if library in ("onnx", "onnx_ml_pb2"):
        from infuse.frontends import onnx

        return onnx.load(source)
    what, hint = _advice(source)
    raise InputError(f"no graph is read from {what}", hint=hint)


def _advice(source: Any) -> tuple[str, str]:
    """What an object is, and how its graph is made."""
    name = type(source).__name__
    if isinstance(source, type):
        return (
            f"the class {source.__name__}, which is no model yet",
            f"make one: {source.__name__}(…), with its weights",
        )
    if hasattr(source, "shape") and (hasattr(source, "dtype") or hasattr(source, "columns")):
        return _array(source)
    for prefixes, advice in _ADVICE:
        if _class_of(source, *prefixes) is not None:
            return advice(source)
    if callable(source) and hasattr(source, "__code__"):
        return _function(source)
    library = type(source).__module__.partition(".")[0]
    return (
        f"an object of the class {name} of {library}",
        "save it to a file, and load that: infuse.load('model.onnx')",
    )


def _class_of(source: Any, *prefixes: str) -> type | None:
    """The first class of an object's inheritance whose full name begins with one of these."""
    for each in type(source).__mro__:
        path = f"{each.__module__}.{each.__qualname__}"
        if any(path == prefix or path.startswith(f"{prefix}.") for prefix in prefixes):
            return each
    return None


# -- what is said of each kind ---------------------------------------------------------------------


def _module(source: Any) -> tuple[str, str]:
    call = f"infuse.from_torch(module, ({required_arguments(source.forward)}))"
    hint = f"call {call}, with example inputs"
    if _class_of(source, "transformers"):
        hint += ", or infuse.load(folder) after module.save_pretrained(folder)"
    what = f"a torch.nn.Module ({type(source).__name__}), which is traced on example inputs"
    return what, hint


def _script(source: Any) -> tuple[str, str]:
    return (
        "a live program of TorchScript",
        (
            "save it with torch.jit.save(program, 'model.pt'), and call"
            " infuse.from_torchscript('model.pt', {'x': infuse.Spec('float32', ('batch', 4))})"
        ),
    )


def _keras(source: Any) -> tuple[str, str]:
    return (
        f"a live model of Keras ({type(source).__name__})",
        (
            "call model.save('model.keras') and infuse.load('model.keras'); for a subclassed model,"
            " model.export('folder') and infuse.load('folder')"
        ),
    )


def _tensorflow(source: Any) -> tuple[str, str]:
    return (
        f"a live object of TensorFlow ({type(source).__name__})",
        "call tf.saved_model.save(module, 'folder', signatures=…) and infuse.load('folder')",
    )


def _function(source: Any) -> tuple[str, str]:
    arguments = required_arguments(source)
    names = arguments.rstrip(",").split(", ")
    return (
        f"the function {getattr(source, '__name__', '')}, which is traced on example inputs",
        (
            f"call infuse.from_jax(function, ({arguments})) for one of JAX, or infuse.trace("
            f"function, {{{names[0]!r}: infuse.Spec('float32', (…))}}) for one in NumPy's style"
        ),
    )


def _jax(source: Any) -> tuple[str, str]:
    call = f"infuse.from_jax(function, ({required_arguments(source)}))"
    return "a function of JAX, which is traced on example inputs", f"call {call}"


def _flax(source: Any) -> tuple[str, str]:
    return (
        f"a module ({type(source).__name__}) that is a function of its parameters",
        (
            "call infuse.from_jax(lambda params, x: model.apply(params, x), (params, x),"
            " constants=['params'])"
        ),
    )


def _array(source: Any) -> tuple[str, str]:
    return (
        f"an array ({type(source).__name__}): it holds no model",
        "infuse.load takes a path, bytes or a model; arrays go to model.run({'x': array})",
    )


def _own_estimator(source: Any) -> tuple[str, str]:
    return (
        f"{type(source).__name__}, an estimator of your own class",
        (
            "replace it by those of scikit-learn, or write what it computes as a function:"
            " infuse.trace(function, {'x': infuse.Spec('float64', ('batch', 4))})"
        ),
    )


def _session(source: Any) -> tuple[str, str]:
    return (
        f"a {type(source).__name__}, which runs a model",
        "load the file that it was made from: infuse.load('model.onnx')",
    )


def _compiled(source: Any) -> tuple[str, str]:
    return (
        "a compiled model, which has no graph in it",
        "run it: model.run({'x': array}), or load the file that it was compiled from",
    )


def _paddle(source: Any) -> tuple[str, str]:
    return (
        f"a live layer of Paddle ({type(source).__name__})",
        "call paddle.jit.save(layer, 'folder/model', input_spec=[…]) and infuse.load('folder')",
    )


def _mindspore(source: Any) -> tuple[str, str]:
    return (
        f"a live cell of MindSpore ({type(source).__name__})",
        (
            "call mindspore.export(net, x, file_name='model', file_format='MINDIR') and"
            " infuse.load('model.mindir')"
        ),
    )


_Advice = Callable[[Any], tuple[str, str]]
_ADVICE: Final[Sequence[tuple[Sequence[str], _Advice]]] = (
    (("torch.jit",), _script),
    (_KERAS, _keras),
    (("torch.nn.modules.module.Module", "torch.nn.Module"), _module),
    (("flax", "equinox", "haiku"), _flax),
    (("jaxlib", "jax"), _jax),
    (("tensorflow",), _tensorflow),
    (("paddle",), _paddle),
    (("mindspore",), _mindspore),
    (("infuse.runtime",), _compiled),
    (("onnxruntime", "infuse.onnxruntime"), _session),
    (_ESTIMATORS, _own_estimator),
)
"""By the full name of a class, the first that fits: Keras before torch, which may be its base."""
