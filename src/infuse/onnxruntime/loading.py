"""From what a session is given to a compiled model: options, sizes that are fixed, initializers
that are replaced.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from infuse import api
from infuse.errors import ModelFileError, OptionError, RuntimeFailure
from infuse.onnxruntime.entries import SESSION_KEYS
from infuse.onnxruntime.enums import GraphOptimizationLevel
from infuse.onnxruntime.errors import (
    ArgumentTypeError,
    Fail,
    InvalidArgument,
    ModelLoadCanceled,
    NoSuchFile,
    translated,
)
from infuse.onnxruntime.notices import no_effect, tells_warnings
from infuse.onnxruntime.options import SessionOptions, asks_to_compile_otherwise, compile_fields
from infuse.onnxruntime.pool import pool_threads
from infuse.onnxruntime.reuse import Reuse
from infuse.onnxruntime.values import OrtValue
from infuse.options import CompileOptions
from infuse.runtime.folder import is_compiled
from infuse.runtime.interface import PREBUILT, Model

if TYPE_CHECKING:
    from onnx import ModelProto, TensorProto

    from infuse.ir.graph import Graph

FOLDER_KEY: Final = "session.model_external_initializers_file_folder_path"
"""The entry that has a meaning here: where the data lies of a model that is given as bytes."""
LEVELS: Final[Mapping[GraphOptimizationLevel, str]] = {
    GraphOptimizationLevel.ORT_DISABLE_ALL: "none",
    GraphOptimizationLevel.ORT_ENABLE_BASIC: "basic",
    GraphOptimizationLevel.ORT_ENABLE_EXTENDED: "extended",
    GraphOptimizationLevel.ORT_ENABLE_LAYOUT: "all",
    GraphOptimizationLevel.ORT_ENABLE_ALL: "all",
}


def adopted(options: Any) -> SessionOptions:
    """The options of a session: ours, or those of an object of ONNX Runtime's own class, as far as
    that tells them. (It does not tell sizes that it overrides, and initializers.)
    """
    if options is None or isinstance(options, SessionOptions):
        return options or SessionOptions()
    if type(options).__name__ != SessionOptions.__name__:
        raise ArgumentTypeError(
            f"the options of a session cannot be a {type(options).__name__}",
            hint="use SessionOptions",
        )
    names = (name for name in SessionOptions._listed if hasattr(options, name))
    result = SessionOptions(**{name: getattr(options, name) for name in names})
    for key in SESSION_KEYS:
        try:
            result.add_session_config_entry(key, options.get_session_config_entry(key))
        except RuntimeError:  # there is no such entry
            continue
    return result


def warn_of_idle(options: SessionOptions, depth: int) -> None:
    """Warn of options that were changed and have no effect."""
    severity = options.log_severity_level
    for name in options._idle():
        no_effect(f"SessionOptions.{name}", severity=severity, depth=depth + 1)
    for name in options._entries.names():
        if name == FOLDER_KEY:
            continue
        no_effect(f"the session entry {name!r}", severity=severity, depth=depth + 1)


def checked_source(source: Any) -> Any:
    """What a model is made of; ArgumentTypeError for what is no path and no bytes, NoSuchFile where
    nothing is.
    """
    if isinstance(source, str | os.PathLike):
        path = os.fsdecode(source)
        if not Path(path).exists():
            raise translated(ModelFileError("there is no such file", where=path), NoSuchFile)
        return path
    if isinstance(source, bytes | bytearray | memoryview) or _is_model(source):
        return source
    raise ArgumentTypeError(
        f"a model cannot be loaded from a {type(source).__name__}",
        hint="give its path, or its content as bytes",
    )


def _is_model(source: Any) -> bool:
    return type(source).__name__ in ("ModelProto", "Graph")


def load_model(source: Any, options: SessionOptions, precision: str) -> tuple[Model, Graph | None]:
    """The compiled model of a session, and its optimized graph; None for a model that was compiled
    before, by hand or by a session of the same content and options.
    """
    if options._is_cancelled:
        stopped = RuntimeFailure("loading was cancelled", hint="clear the flag of the options")
        raise translated(stopped, ModelLoadCanceled)
    threads = _threads(options)
    if isinstance(source, str) and is_compiled(source):
        _refuse_for_compiled(source, options, precision)
        return api.load_compiled(source, threads), None
    asked = {**compile_fields(options), "precision": precision, "threads": threads}
    compiling = CompileOptions.flat(**asked)
    reuse = Reuse(source, options, precision, threads)
    before = reuse.load()
    if before is None:
        better, model = _compiled(source, options, compiling)
        reuse.keep(model)
        return model, better
    if before.tier != PREBUILT or compiling.compile != "background":
        return before, None
    from infuse.build.background import Job, compiled_later

    def optimized() -> Graph:
        graph = _optimized(_graph(source, options), options)
        reuse.require_unchanged()
        return graph

    swapping = compiled_later(before, Job(optimized, compiling, api.compile))
    reuse.keep(swapping)
    return swapping, None


def _compiled(
    source: Any, options: SessionOptions, compiling: CompileOptions
) -> tuple[Graph, Model]:
    from infuse.build.compile import compiling_ahead

    graph = _graph(source, options)
    with compiling_ahead(graph, compiling):
        better = _optimized(graph, options)
        if options.optimized_model_filepath:
            api.save(better, options.optimized_model_filepath)
        return better, api.compile(better, compiling)


def _optimized(graph: Graph, options: SessionOptions) -> Graph:
    return api.optimize(
        graph,
        LEVELS[GraphOptimizationLevel(options.graph_optimization_level)],
        set_dims=overridden_sizes(graph, options),
        fix_defaults=None if tells_warnings(options.log_severity_level) else False,
    )


def _threads(options: SessionOptions) -> int | None:
    count = options.intra_op_num_threads
    if count < 0:
        raise OptionError(f"intra_op_num_threads is {count}", hint="0 lets Infuse choose")
    return (count if options.use_per_session_threads else count or pool_threads()) or None


def _refuse_for_compiled(folder: str, options: SessionOptions, precision: str) -> None:
    if precision != "fp32" or asks_to_compile_otherwise(options):
        raise OptionError(
            f"{folder} is compiled already, in a precision of its own", hint="name the model"
        )
    changes = (options._sizes, options._denoted_sizes, options._initializers)
    if any((*changes, options._external, options._files, options.optimized_model_filepath)):
        raise OptionError(
            f"{folder} is compiled already: its sizes and initializers stay, and its graph cannot "
            "be written",
            hint="name the model",
        )


def overridden_sizes(graph: Graph, options: SessionOptions) -> dict[str, int]:
    """The sizes that the options fix, by symbols of the graph. What no input has is left out, as in
    ONNX Runtime.
    """
    texts: dict[str, str] = json.loads(graph.metadata.get("onnx.sizes", "{}"))
    denotations: dict[str, list[str]] = json.loads(graph.metadata.get("onnx.denotations", "{}"))
    sizes: dict[str, int] = {}
    for value in graph.inputs:
        shape = getattr(value.type, "shape", None) or ()
        denoted = denotations.get(value.name, [""] * len(shape))
        for size, denotation in zip(shape, denoted):
            symbol = str(size)
            if isinstance(size, int):
                continue
            if denotation in options._denoted_sizes:
                sizes[symbol] = options._denoted_sizes[denotation]
            elif texts.get(symbol, symbol) in options._sizes:
                sizes[symbol] = options._sizes[texts.get(symbol, symbol)]
    return sizes


def _graph(source: Any, options: SessionOptions) -> Graph:
    folder = Path(source).parent if isinstance(source, str) else None
    if folder is None and FOLDER_KEY in options._entries.names():
        folder = Path(options._entries.get(FOLDER_KEY))
    is_changed = options._initializers or options._external or options._files
    if not is_changed and (folder is None or isinstance(source, str)):
        return api.load(source)
    from infuse.frontends.onnx import load as load_onnx

    if not is_changed:
        return load_onnx(source, folder=folder)
    model = _message(source)
    tensors = {tensor.name: tensor for tensor in model.graph.initializer}
    for name, value in options._initializers.items():
        _replace(tensors, name, value)
    for name, value in options._external.items():
        if name in tensors and not _is_external(tensors[name]):
            raise _replaced_wrongly(f"the data of the initializer {name!r} lies in the model")
        _replace(tensors, name, value)
    for tensor in filter(_is_external, tensors.values()):
        _read(tensor, options._files)
    return load_onnx(model, folder=folder)


def _message(source: Any) -> ModelProto:
    """A copy of the model, without the data that lies in other files."""
    from google.protobuf.message import DecodeError
    from onnx import ModelProto

    model = ModelProto()
    try:
        if isinstance(source, ModelProto):
            model.CopyFrom(source)
        else:
            model.ParseFromString(Path(source).read_bytes() if isinstance(source, str) else source)
    except (DecodeError, OSError) as error:
        raise OptionError(
            "initializers can be replaced in ONNX models only",
            where=source if isinstance(source, str) else None,
        ) from error
    return model


def _is_external(tensor: TensorProto) -> bool:
    return tensor.data_location == tensor.EXTERNAL


def _replace(tensors: Mapping[str, TensorProto], name: str, value: OrtValue) -> None:
    from onnx import numpy_helper

    tensor = tensors.get(name)
    if tensor is None:
        raise _replaced_wrongly(
            f"the model has no initializer {name!r}", f"it has {', '.join(tensors) or 'none'}"
        )
    if value.element_type() != tensor.data_type or value.shape() != [*tensor.dims]:
        raise _replaced_wrongly(
            f"the initializer {name!r} has the shape {[*tensor.dims]} and elements of type "
            f"{tensor.data_type}, the value for it {value.shape()} and {value.element_type()}"
        )
    tensor.CopyFrom(numpy_helper.from_array(value.numpy(), name))


def _read(tensor: TensorProto, files: Mapping[str, bytes]) -> None:
    """Give a tensor its data, where that lies in one of these files."""
    told = {entry.key: entry.value for entry in tensor.external_data}
    content = files.get(told.get("location", ""))
    if content is None:
        return
    start = int(told.get("offset", 0))
    end = start + int(told["length"]) if "length" in told else len(content)
    if end > len(content):
        raise _replaced_wrongly(
            f"{told['location']!r} has {len(content)} bytes, and the initializer {tensor.name!r} "
            f"ends at byte {end}"
        )
    tensor.ClearField("external_data")
    tensor.data_location = tensor.DEFAULT
    tensor.raw_data = content[start:end]


def _replaced_wrongly(what: str, hint: str | None = None) -> Exception:
    return translated(OptionError(what, hint=hint), Fail, InvalidArgument)
