"""The public verbs: load, optimize, save, compile.

What a verb needs is imported when it is called: a process that only runs compiled models stays
small.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from infuse.budgets import timed
from infuse.errors import BudgetError, ModelFileError, OptionError
from infuse.options import BindOptions, CompileOptions, FormatOptions, Rules, TorchScript
from infuse.options.fields import require
from infuse.options.former import Moved, former, same
from infuse.runtime.folder import METADATA, STAGES, is_compiled
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel

if TYPE_CHECKING:
    from infuse.bindings.package import BoundPackage
    from infuse.ir.graph import Graph
    from infuse.passes.verification import Witness

Progress = Callable[[str, int, int], None]
PathLike = str | os.PathLike[str]

_TOO_LARGE = (
    "array is too big",
    "Maximum allowed dimension exceeded",
    "Maximum allowed size exceeded",
)
"""What NumPy says of arrays that no address space holds, as a ValueError."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


def bounded(verb: Callable[_P, _R]) -> Callable[_P, _R]:
    """A verb within the budget of time, in which a want of memory and endless nesting are errors of
    ours.
    """

    @functools.wraps(verb)
    def run(*arguments: _P.args, **named: _P.kwargs) -> _R:
        try:
            with timed():
                return verb(*arguments, **named)
        except (MemoryError, ValueError) as error:
            if isinstance(error, ValueError) and not str(error).startswith(_TOO_LARGE):
                raise
            told = f": {error}" if str(error) else ""
            hint = "give the process more memory, or use a smaller model"
            raise BudgetError(
                f"there is not enough memory{told}", where=verb.__name__, hint=hint
            ) from error
        except RecursionError as error:
            raise BudgetError(
                "the model nests more deeply than can be followed",
                where=verb.__name__,
                hint="export it with fewer levels of bodies, functions or expressions",
            ) from error

    return run


@former(Moved("options", FormatOptions.flat, same("inputs", "signature", "cache")))
@bounded
def load(source: PathLike | bytes | Any, options: FormatOptions | None = None) -> Graph:
    """The graph of a model: a path or the bytes of a model in any format that is known by its
    content (`infuse.frontends.formats`), a ModelProto of ONNX, an ExportedProgram of PyTorch, or a
    fitted estimator.

    Weights stay where they are (memory-mapped) until they are used. `options` are those of the
    format: `TorchScript(inputs=…)` (see `from_torchscript`), `SavedModel(signature=…)`, or
    `HuggingFace(cache=True)`, with which a decoder takes keys and values of the tokens before,
    `past_key_values.0.key` [batch, heads, past, size] and so on, and gives `present.0.key`.
    ModelFileError when the file is broken, OptionError for options of another format.
    """
    from infuse.frontends.formats import load as load_any

    if (
        isinstance(source, str | os.PathLike)
        and is_compiled(source)
        and any((Path(source) / name).is_file() for name in (STAGES, METADATA))
    ):
        raise ModelFileError(
            "it is a compiled model, which has no graph in it",
            where=os.fspath(source),
            hint="infuse.load_compiled opens it, or load the file that it was compiled from",
        )
    graph = load_any(source, options)
    if graph.metadata.get("onnx.producer_name") == "pytorch":
        from infuse.doctor.warning import warn_of_exporter

        where = os.fspath(source) if isinstance(source, str | os.PathLike) else "the model"
        warn_of_exporter(graph, where)
    return graph


@bounded
def from_torch(
    module: Any,
    args: Any = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> Graph:
    """The graph of a PyTorch module in evaluation mode, as torch.export traces it on these
    arguments (a tuple, or a tensor), or of an ExportedProgram.

    `dynamic_shapes` are those of torch.export.export; the names of their sizes are the graph's.
    `input_names` and `output_names` call the first inputs and results by other names, in order, as
    those of torch.onnx.export do.
    """
    from infuse.frontends.torch import from_torch as read

    return read(
        module,
        args,
        kwargs,
        dynamic_shapes=dynamic_shapes,
        input_names=input_names,
        output_names=output_names,
    )


@bounded
def from_torchscript(source: PathLike | bytes, inputs: Mapping[str, Any] | None = None) -> Graph:
    """The graph of a program that torch.jit.save wrote, by its path or bytes.

    `inputs` says by name what the arguments of its forward are: an `infuse.Spec` of a tensor, or
    the number or text that the argument is to have; lists and dictionaries of these. Without it,
    those of a traced program are like what it was traced on. A field that the program changes
    (`decoder.state`) is described in the same way.
    """
    from infuse.frontends.formats import load as load_any

    return load_any(source, TorchScript(inputs))


@bounded
def from_jax(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    constants: Iterable[str] = (),
) -> Graph:
    """The graph of a function of JAX, as JAX traces it on these arguments: trees of arrays, or of
    `jax.ShapeDtypeStruct`, in which sizes may be dynamic (`jax.export.symbolic_shape`).

    Arrays of arguments are inputs, called by their place (`params.dense.kernel`). Those of the
    arguments that `constants` names are constants, as are arrays that the function closes over.
    Results are called `output`, `output_0`, … in a tuple, or by the keys of a dictionary.
    """
    from infuse.frontends.jax import from_jax as read

    return read(function, args, kwargs, constants=constants)


@bounded
def trace(
    function: Callable[..., Any], specs: Mapping[str, Any] | Sequence[Any], *, name: str = ""
) -> Graph:
    """The graph of what a function in the style of NumPy computes of arrays that are like `specs`
    (`infuse.Spec`, NumPy arrays, or pairs of element type and shape), by name or in order.

    The function uses operators, indices and the functions of the Array API standard
    (`xp = x.__array_namespace__()`); where it decides by elements, it uses `where`, `infuse.cond`,
    `infuse.loop` and `infuse.scan`. Its result is an array, a tuple, or a dictionary by name.
    """
    from infuse.tracing.arrays import trace as trace_function

    return trace_function(function, specs, name=name)


def _verification(
    inputs: Mapping[str, Any] | None = None, verify: bool | None = None
) -> bool | Mapping[str, Any]:
    if inputs is not None and verify is False:
        raise OptionError(
            "inputs are those of a verification, and verify is False", hint="leave one of them out"
        )
    return bool(verify) if inputs is None else inputs


@former(
    Moved(
        "rules",
        Rules,
        same("level", "disable", "only", "enable", "extra", "runtime", "search"),
        plain="level",
    ),
    Moved("verify", _verification, same("inputs"), plain="verify"),
)
@bounded
def optimize(
    graph: Graph | PathLike,
    rules: Rules | str = "all",
    *,
    set_dims: Mapping[str, int] | None = None,
    fix_defaults: bool | None = None,
    verify: bool | Mapping[str, Any] = False,
    progress: Progress | None = None,
) -> Graph:
    """An optimized copy of `graph`; the original stays as it is. `.report` of the result tells what
    fired.

    `rules` is a level, or `Rules` with a level and more: none, basic (keeps to standard operators),
    extended (fused operators) or all (also what only this compiler profits from). `set_dims` fixes
    symbolic sizes, and `fix_defaults` makes inputs that have a default constants. Else those stay
    inputs that a call may give, and nothing is computed from them beforehand; a warning says so
    unless it is False.

    With `verify`, the result is compared with the original in NumPy, on random inputs for two sets
    of sizes, or on the inputs that `verify` is, by name; a rule after which it differs is found,
    left out, and named in `.report.verification`. It costs two evaluations of the model, far more
    than the optimization.

    With `Rules(search=…)`, so many seconds at most go into looking for cheaper forms of what is
    linear that no rule finds; each is checked on random inputs, and listed in `.report.search`.
    Sums may then be added in another order. With `Rules(runtime="onnxruntime")` the result may also
    use the operators that only ONNX Runtime has (com.microsoft).
    """
    from infuse.ir.clone import clone
    from infuse.passes.binding import (
        fix_defaults as fix_inputs,
        set_dims as fix_sizes,
        warn_of_defaults,
    )
    from infuse.passes.verification import Witness

    require("verify", verify, bool | Mapping[str, Any], "True, False, or arrays by input name")
    chosen = Rules.of(rules)
    result = clone(graph_of(graph))
    if fix_defaults:
        fix_inputs(result)
    elif fix_defaults is None and chosen.level != "none":
        warn_of_defaults(result)
    if set_dims:
        fix_sizes(result, set_dims)
    witness = None
    if not isinstance(verify, bool):
        witness = Witness.on_given(result, verify)
    elif verify:
        witness = Witness.on_random(result)
    return rewritten(result, chosen, witness, progress)


def rewritten(
    graph: Graph, rules: Rules, witness: Witness | None = None, progress: Progress | None = None
) -> Graph:
    """A graph after its optimization, and the search where rules ask for one; where there is a
    witness a copy that was compared with it.
    """
    from infuse.passes.run import optimize_in_place
    from infuse.passes.selection import Selection
    from infuse.passes.verification import optimize_verified

    selection = Selection.of(rules)
    if witness is not None:
        graph = optimize_verified(graph, selection, witness, progress)
    else:
        graph.report = optimize_in_place(graph, selection, progress)
    if not rules.search:
        return graph
    from infuse.lowering.costs import costs_of
    from infuse.search import Roofline, search
    from infuse.targets import Target

    machine = Target.resolve("native").machine
    prices = Roofline(lanes=machine.lanes, kernels=costs_of(machine).kernel_seconds(machine, 1))
    return search(graph, rules.search, selection, witness=witness, prices=prices, progress=progress)


@bounded
def extract(
    graph: Graph | PathLike,
    *,
    inputs: str | Sequence[str] = (),
    outputs: str | Sequence[str] = (),
) -> Graph:
    """The part of a graph that computes the values `outputs` from the values `inputs`, by name; the
    original stays as it is.

    No inputs stand for those of the graph that are needed, no outputs for those of the graph.
    OptionError for a name that no value has, for inputs that nothing depends on, and where the
    outputs need other inputs too.
    """
    from infuse.ir.extraction import extract as cut

    for name, names in (("inputs", inputs), ("outputs", outputs)):
        require(name, names, str | Sequence[str], "a name, or a list of names")
    lists = ([each] if isinstance(each, str) else list(each) for each in (inputs, outputs))
    return cut(graph_of(graph), *lists)


@bounded
def load_compiled(
    folder: PathLike, threads: int | None = None, *, key: bytes | PathLike | None = None
) -> Model:
    """The compiled model in `folder`. CompiledModelError when it is broken or was made for another
    processor.

    `key`: the 32 bytes by which its weights were encrypted (`infuse.encrypt`), or a file that holds
    them; default: the file that `$INFUSE_KEY` names.
    """
    if not (Path(folder) / STAGES).is_file():
        return CompiledModel.load(folder, threads, key=key)
    if key is not None:
        raise OptionError("the weights are not encrypted", where=str(folder), hint="leave key out")
    from infuse.runtime.hosted import HostedModel

    return HostedModel.load(folder, threads)


def encrypt(folder: PathLike, key: bytes | PathLike) -> None:
    """Replace the weights of a compiled folder by the same encrypted with `key`: 32 bytes, or a
    file that holds them (AES-256-GCM). `load_compiled` needs the key then; for programs in C,
    `decrypt.h` lies beside the header.

    The cache of compiled models on this machine still has the weights as they are. OptionError for
    another key, for a model with weights inside of the library, and for one of which Python runs a
    part.
    """
    from infuse.build.encrypting import encrypt

    encrypt(folder, key)


@bounded
def save(
    graph: Graph,
    path: PathLike,
    *,
    opset: int | None = None,
    coded: bool = False,
    cluster_bits: int | None = None,
) -> None:
    """Write a graph as .infuse or .onnx, by the ending of `path`. The file appears whole or not at
    all.

    With `coded`, an .infuse file has its weights entropy coded: it is smaller, without loss, and
    weights are decoded when it is loaded. With `cluster_bits` (2 to 8) besides, each weight of
    floats of two and more axes has at most 2^bits values, the means of its clusters: that changes
    what the model answers. OptionError for options that the format does not have.
    """
    require("opset", opset, int | None)
    require("coded", coded, bool)
    target = Path(path)
    if target.suffix == ".infuse":
        from infuse.ir.file import save as save_infuse

        save_infuse(graph, target, coded=coded, cluster_bits=cluster_bits)
    elif coded or cluster_bits is not None:
        raise OptionError("only .infuse files have coded weights", where=f"output {target}")
    elif target.suffix == ".onnx":
        from infuse.exporters.onnx import save as save_onnx

        save_onnx(graph, target, opset=opset)
    else:
        raise OptionError(
            f"{target.name} ends neither in .infuse nor in .onnx",
            hint="name the file by its format",
        )


@former(
    Moved(
        "options",
        CompileOptions.flat,
        same(
            "target", "threads", "precision", "max_difference", "data", "tune", "weights", "prefix"
        ),
    ),
    Moved("rules", Rules, same("search")),
)
@bounded
def compile(
    graph: Graph | PathLike,
    options: CompileOptions = CompileOptions(),
    *,
    rules: Rules | str = "all",
    output: PathLike | None = None,
    progress: Progress | None = None,
) -> Model:
    """Native code for a graph, ready to run.

    What has no native code (strings, sequences, random numbers) is run by the interpreter between
    stages of native code; `.host_steps` of the model names it.

    UnsupportedOperatorError names the operators that nobody knows, where the model has any.

    A graph that was not optimized is optimized by `rules` first. `output` is a folder for the
    compiled model, which `load_compiled` opens without a compiler. Of `options`, `target` is
    native, x86-64-v4 (AVX-512), x86-64-v3 (AVX2), x86-64, c (C for any machine) or aarch64 (NEON;
    on another machine only with `output`, to be copied there); `threads` the number of threads of a
    run (default: what this process may use); `precision` fp32; bf16: products with weights and
    those of attention take operands rounded to bfloat16 and sum up in float32, everything else
    stays as it is (OptionError where the target has no instruction for that); bf16x2: the same
    products split their operands into two bfloat16 each, so that 16 bits of a number count in place
    of 8 (OptionError where the target has no tile registers for bfloat16; what is not finite makes
    NaN); fp16: weights are stored as IEEE halves, and everything is computed in float32
    (`metadata["kept_in_fp32"]` of the model names the tensors that halves do not hold); auto: the
    fastest of these on this machine that stays near fp32; `tune` measures which kernels are
    fastest, where several compute the same: for up to three minutes, and once, as the times are
    kept in the cache folder (OptionError where this machine does not run code for the target);
    without it a model of their costs chooses; `weights` fast takes the fastest kernels, also those
    that keep transformed copies of weights, up to four times as large (Winograd's convolutions),
    small leaves these out where another kernel computes the same, and balanced takes as many as
    keep all weights within 1.5 times the model's, those first that save most time for each byte
    (`metadata["limited_kernels"]` names the others); `prefix` is what the names of its C functions
    begin with: two models in one C program need two.

    `precision="auto"`, or `Auto(max_difference, data)`, compiles the model in each precision that
    this machine computes in, and times them. The fastest is taken if it needs 5 % less time than
    fp32, or more where times vary more, and if no output differs from that of fp32 by more than
    `max_difference` (default: 0.01) of the output's largest element, on `data`: one or several sets
    of inputs by name (default: random ones). Where the whole model differs more, the layers that
    change the outputs most stay in fp32; what is taken was compiled, run and compared. Elements
    that are not finite are out of every bound, and so are integers that differ.
    `metadata["precision_report"]` has the precision of each layer, differences, times and why
    others were not taken. It is kept in the cache folder for the same model, inputs and bound.
    InputError where the inputs do not fit; OptionError where the bound is not positive, this
    machine does not run code for the target, the model draws random numbers or has no output of
    floats, or no random inputs can be made for it.
    """
    from infuse.build.compile import compile_graph, compiling_ahead

    source = graph_of(graph)
    with compiling_ahead(source, options):
        if source.report is None:
            source = optimize(source, rules, progress=progress)
        return compile_graph(source, options, output=output, progress=progress)


def graph_of(model: Graph | PathLike) -> Graph:
    """The graph itself, or that of the model at a path."""
    from infuse.ir.graph import Graph

    return model if isinstance(model, Graph) else load(model)


__all__ = [
    "compile",
    "load",
    "load_compiled",
    "optimize",
    "save",
]


def bind(folder: PathLike, output: PathLike, options: BindOptions) -> BoundPackage:
    """Write a package of another language to the folder `output` that runs the compiled model in
    `folder`: `BindOptions("go")`. The result says what it is called, and what else is to be known.

    OptionError for what is no compiled model with a C interface, for a language that there is not,
    and for an output that holds other things.
    """
    from infuse.bindings.package import bind as write

    return write(folder, output, options)
