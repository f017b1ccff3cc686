"""Options as objects: what they check, the keywords that they replace, and what is made of them."""

import functools
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import typer

import infuse
from infuse.cli.commands import COMMANDS, function_of
from infuse.compression.ranges import CALIBRATORS as RANGES
from infuse.errors import InfuseError, OptionError
from infuse.ir.graph import Graph
from infuse.ir.parser import parse
from infuse.onnxruntime.options import compile_fields
from infuse.options import METHODS, Rules
from infuse.options.compressing import methods_of
from infuse.options.fields import Checked, fields_of, flat_fields
from infuse.options.former import former
from infuse.options.methods import CALIBRATORS
from infuse.options.page import GROUPS, page
from infuse.serving.control.compiling import compile_options
from infuse.serving.control.model_config import ModelConfig
from infuse.training.optimizers import AdamW

ROOT = Path(__file__).resolve().parents[2]
KINDS = [kind for kinds in GROUPS.values() for kind in kinds]
VERBS = [
    "compare",
    "compile",
    "compress",
    "extract",
    "from_jax",
    "from_torch",
    "from_torchscript",
    "inspect",
    "load",
    "load_compiled",
    "optimize",
    "profile",
    "save",
    "trace",
    "view",
]
X = {"x": np.zeros((4, 3), np.float32)}
X_OF_FOUR = {"x": np.zeros((2, 4), np.float32)}


def test_the_page_is_made_from_the_classes() -> None:
    written = (ROOT / "docs" / "options.md").read_text(encoding="utf-8")
    assert written == page(), "run python -m infuse.options.page docs/options.md"


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_classes_are_frozen_public_and_documented(kind: type[Checked]) -> None:
    assert getattr(infuse, kind.__name__) is kind
    assert is_dataclass(kind)
    made = kind(**({"part": "50%"} if kind is infuse.Prune else {"epochs": 1}
                   if kind is infuse.Tune else {}))  # fmt: skip
    for each in fields_of(kind):
        assert each.about.text
        assert f"{each.name}: " in (kind.__doc__ or "")
        with pytest.raises(AttributeError):
            setattr(made, each.name, None)


@pytest.mark.parametrize("verb", VERBS)
def test_verbs_have_eight_parameters_at_most(verb: str) -> None:
    assert len(inspect.signature(getattr(infuse, verb)).parameters) <= 8


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: infuse.CompileOptions(threads=0), "threads is 0. Hint: it is at least 1"),
        (lambda: infuse.CompileOptions(threads="2"), "threads is '2'. Hint: it is a whole number"),
        (lambda: infuse.CompileOptions(threads=True), "threads is True"),
        (lambda: infuse.CompileOptions(tune=1), "tune is 1. Hint: it is True or False"),
        (lambda: infuse.CompileOptions(precision="fp8"), "no precision 'fp8'. Hint: one of: fp32"),
        (lambda: infuse.CompileOptions(weights="tiny"), "no choice of weights 'tiny'"),
        (lambda: infuse.Auto(0.0), "max_difference is 0.0. Hint: it is more than 0"),
        (lambda: infuse.Auto(float("nan")), "max_difference is nan"),
        (lambda: infuse.Auto("0.1"), "max_difference is '0.1'. Hint: it is a number"),
        (lambda: infuse.Auto(data="file.npz"), "data is 'file.npz'"),
        (lambda: infuse.Rules("most"), "no level 'most'. Hint: one of: none, basic"),
        (lambda: infuse.Rules(runtime="tvm"), "no runtime 'tvm'. Hint: one of: onnxruntime"),
        (lambda: infuse.Rules(only=[1]), "only takes names of rules"),
        (lambda: infuse.Rules(search=-1), "search is -1"),
        (lambda: infuse.Examples(batch=0), "batch is 0"),
        (lambda: infuse.Examples(seed=-1), "seed is -1"),
        (lambda: infuse.Turns(rounds=0), "rounds is 0"),
        (lambda: infuse.Contract("half"), "max_drop is 'half', which bounds nothing"),
        (lambda: infuse.Contract(-0.1), "bounds nothing"),
        (lambda: infuse.Contract(minutes=0), "minutes is 0. Hint: it is more than 0"),
        (lambda: infuse.Tune(), "needs an end"),
        (lambda: infuse.Tune(features=1.0), "nothing is tuned"),
        (lambda: infuse.Prune(""), "not a part of the model"),
        (lambda: infuse.Prune("50%", of="energy"), "no goal 'energy'"),
        (lambda: infuse.Int8(calibrator="guess"), "no calibrator 'guess'"),
        (lambda: methods_of("int1"), "no method 'int1'. Hint: methods: int8"),
        (lambda: methods_of([]), "no method is named"),
        (lambda: methods_of(["int8", infuse.Int8()]), "int8 is asked for twice"),
        (lambda: methods_of(7), "no method 7"),
        (lambda: infuse.SavedModel(1), "signature is 1. Hint: it is a text or None"),
    ],
)
def test_what_means_nothing_is_refused(make: Callable[[], Any], said: str) -> None:
    with pytest.raises(OptionError) as raised:
        make()
    assert said in str(raised.value)


def test_numbers_of_numpy_are_numbers() -> None:
    assert infuse.CompileOptions(threads=np.int64(2)).threads == 2
    assert infuse.Auto(np.float64(0.1)).max_difference == 0.1


def test_options_are_written_as_they_are_made() -> None:
    options = infuse.CompileOptions(precision=infuse.Auto(0.1, X), threads=2)
    assert repr(options) == (
        "CompileOptions(threads=2, precision=Auto(max_difference=0.1, data=…))"
    )
    assert repr(Rules("basic", disable=["B", "A"])) == "Rules(level='basic', disable=('A', 'B'))"


def test_names_of_methods_and_calibrators_are_stated_once() -> None:
    assert {name: kind.name for name, kind in METHODS.items()} == dict(zip(METHODS, METHODS))
    assert ("auto", *(name for name in CALIBRATORS if name in RANGES)) == CALIBRATORS
    assert set(CALIBRATORS) == {"auto", *RANGES}


# -- keywords of the last release ------------------------------------------------------------------


def said_of(verb: str, *arguments: Any, **named: Any) -> tuple[dict[str, Any], list[str]]:
    """What a verb is called with, and what is warned of."""
    function = getattr(infuse, verb)
    asked: dict[str, Any] = {}

    @former(*function.moves)
    @functools.wraps(function)
    def stand_in(*given: Any, **by_name: Any) -> None:
        asked.update(inspect.signature(function).bind(*given, **by_name).arguments)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        stand_in(*arguments, **named)
    return asked, [str(each.message) for each in caught if each.category is FutureWarning]


G = object()
FORMER: list[tuple[str, tuple[Any, ...], dict[str, Any], dict[str, Any]]] = [
    (
        "compile",
        (G,),
        {"threads": 2, "target": "x86-64-v3", "search": 1.0, "output": "folder"},
        {
            "options": infuse.CompileOptions("x86-64-v3", 2),
            "rules": infuse.Rules(search=1.0),
            "output": "folder",
        },
    ),
    (
        "compile",
        (G,),
        {"precision": "auto", "max_difference": 0.1, "data": None, "prefix": "net"},
        {"options": infuse.CompileOptions(precision=infuse.Auto(0.1), prefix="net")},
    ),
    ("compile", (G,), {"threads": None}, {"options": infuse.CompileOptions()}),
    ("optimize", (G, "basic"), {"disable": "A"}, {"rules": infuse.Rules("basic", "A")}),
    ("optimize", (G,), {"level": "none"}, {"rules": infuse.Rules("none")}),
    ("optimize", (G,), {"inputs": X, "verify": True}, {"verify": X}),
    ("optimize", (G,), {"inputs": None, "verify": True}, {"verify": True}),
    (
        "profile",
        (G, X),
        {"set_dims": {"n": 2}, "seed": 3, "threads": 1, "level": "basic"},
        {
            "data": infuse.Examples(X, dims={"n": 2}, seed=3),
            "options": infuse.CompileOptions(threads=1),
            "rules": infuse.Rules("basic"),
        },
    ),
    (
        "compare",
        (G, G),
        {"data": X, "labels": [1], "metric": "top1", "batch": 2, "rounds": 1, "seconds": 0.0},
        {
            "data": infuse.Examples(X, labels=[1], metric="top1", batch=2),
            "turns": infuse.Turns(1, 0.0),
        },
    ),
    (
        "compare",
        (G, G),
        {"set_dims": {"n": 1}, "threads": 1, "level": "none"},
        {
            "data": infuse.Examples(dims={"n": 1}),
            "options": infuse.CompileOptions(threads=1),
            "rules": infuse.Rules("none"),
        },
    ),
    ("load", (G,), {"signature": "f"}, {"options": infuse.SavedModel("f")}),
    ("load", (G,), {"cache": True}, {"options": infuse.HuggingFace(True)}),
    ("load", (G,), {"inputs": X}, {"options": infuse.TorchScript(X)}),
    ("load", (G,), {"cache": False}, {"options": None}),
    (
        "compress",
        (G, "int8"),
        {"calibrator": "mse", "bias_correction": False, "data": X, "labels": [1], "seed": 2},
        {
            "methods": (infuse.Int8("mse", False),),
            "data": infuse.Examples(X, labels=[1], seed=2),
        },
    ),
    (
        "compress",
        (G,),
        {"method": ["int8", "int4"], "runtime": "onnxruntime", "rounded_activations": True},
        {"methods": (infuse.Int8(), infuse.Int4("onnxruntime", True))},
    ),
    (
        "compress",
        (G,),
        {"prune": "50%", "prune_goal": "latency", "prune_rounds": 2, "prune_kinds": "channels"},
        {"methods": (infuse.Prune("50%", "latency", 2, "channels"),)},
    ),
    (
        "compress",
        (G, "sparse-int8"),
        {"prune": 0.5, "sparsity": "60%", "block": "1x1", "calibrator": "mse"},
        {"methods": (infuse.Prune(0.5), infuse.SparseInt8("mse", True, "60%", "1x1"))},
    ),
    (
        "compress",
        (G,),
        {
            "max_drop": "1%", "minutes": 5, "tune_epochs": 2, "tune_features": 0.5,
            "level": "basic", "threads": 1, "equalize": False, "rotate": False,
            "allow_slower": True,
        },
        {
            "contract": infuse.Contract("1%", 5),
            "tune": infuse.Tune(2, None, 0.5),
            "options": infuse.CompressOptions("basic", 1, False, False, True),
        },
    ),
    ("compress", (G,), {"tune_features": 0.0}, {"tune": None}),
]  # fmt: skip


def plain(value: Any) -> Any:
    """An object as data that can be compared, whatever it holds."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        return (type(value).__name__, shown)
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize(
    ("verb", "arguments", "named", "expected"),
    FORMER,
    ids=[f"{case[0]}-{'-'.join(case[2])}" for case in FORMER],
)
def test_former_keywords_ask_for_the_same(
    verb: str, arguments: tuple[Any, ...], named: dict[str, Any], expected: dict[str, Any]
) -> None:
    asked, said = said_of(verb, *arguments, **named)
    assert said
    for text in said:
        assert text.startswith(f"{verb}(")
        assert "is written" in text
    for name, value in expected.items():
        assert plain(asked[name]) == plain(value)
    first, second = list(inspect.signature(getattr(infuse, verb)).parameters)[:2]
    others = asked.keys() - expected.keys() - {first, second}
    assert not others


VALUES: dict[str, Any] = {
    "batch": 2, "bias_correction": False, "block": "1x1", "cache": True, "calibrator": "mse",
    "data": X, "disable": "A", "enable": "A", "equalize": False, "extra": [], "feeds": X,
    "inputs": X, "labels": [1], "level": "basic", "max_difference": 0.1, "max_drop": "1%",
    "method": "int8", "metric": "mse", "minutes": 1.0, "only": "A", "precision": "fp16",
    "prefix": "net", "prune": "50%", "prune_goal": "latency", "prune_kinds": "blocks",
    "prune_rounds": 2, "rotate": False, "rounded_activations": True, "rounds": 1,
    "runtime": "onnxruntime", "search": 1.0, "seconds": 0.1, "seed": 1, "set_dims": {"n": 2},
    "signature": "f", "sparsity": "60%", "target": "x86-64", "threads": 1, "tune": True,
    "tune_epochs": 1, "tune_features": 0.5, "tune_minutes": 1.0, "validation": X,
    "weights": "small", "allow_slower": True,
}  # fmt: skip
WITH: dict[str, dict[str, Any]] = {
    "max_difference": {"precision": "auto"},
    "data": {"precision": "auto"},
    "prune_goal": {"prune": "50%"},
    "prune_rounds": {"prune": "50%"},
    "prune_kinds": {"prune": "50%"},
    "rounded_activations": {"method": "int4"},
    "runtime": {"method": "int4"},
    "sparsity": {"method": "sparse"},
    "block": {"method": "sparse"},
    "tune_features": {"tune_epochs": 1},
}
"""Keywords that others go with."""
KEYWORDS = [
    (verb, keyword)
    for verb in sorted({case[0] for case in FORMER})
    for move in getattr(infuse, verb).moves
    for keyword in move.names
]


@pytest.mark.parametrize(("verb", "keyword"), KEYWORDS)
def test_every_former_keyword_is_a_field_now(verb: str, keyword: str) -> None:
    (move,) = (each for each in getattr(infuse, verb).moves if keyword in each.names)
    assert keyword not in inspect.signature(getattr(infuse, verb)).parameters
    value = VALUES[keyword]
    others = WITH.get(keyword, {}) if keyword not in ("runtime",) or verb == "compress" else {}
    asked, said = said_of(verb, *[G] * (1 + (verb == "compare")), **{keyword: value}, **others)
    assert keyword in said[0]
    made = asked[move.parameter]
    objects = made if isinstance(made, tuple) else (made,)
    field = move.names[keyword]
    if keyword not in ("method", "inputs", "max_difference", "data"):
        expected = frozenset({value}) if field in ("disable", "only", "enable") else value
        assert expected in [getattr(each, field, None) for each in objects]


@pytest.mark.parametrize(
    ("verb", "arguments", "named", "said"),
    [
        ("compile", (G, infuse.CompileOptions()), {"threads": 2}, "threads besides"),
        ("optimize", (G, infuse.Rules()), {"disable": "A"}, "disable besides"),
        ("compress", (G, infuse.Int8()), {"calibrator": "mse"}, "calibrator besides"),
        ("compress", (G, "int4"), {"calibrator": "mse"}, "calibrator means nothing for int4"),
        ("compress", (G,), {"prune_kinds": "blocks"}, "nothing is"),
        ("load", (G,), {"cache": True, "signature": "f"}, "several formats"),
        ("compile", (G,), {"max_difference": 0.1}, "means nothing for precision fp32"),
    ],
)
def test_former_keywords_that_mean_nothing_are_refused(
    verb: str, arguments: tuple[Any, ...], named: dict[str, Any], said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        said_of(verb, *arguments, **named)


def test_the_warning_points_to_the_call() -> None:
    graph = infuse.trace(lambda x: x + 1, X)
    with pytest.warns(FutureWarning, match=r"rules=Rules\(level='basic'\)") as caught:
        infuse.optimize(graph, level="basic")  # type: ignore[call-arg]
    assert [each.filename for each in caught] == [__file__]


# -- what is made of the classes -------------------------------------------------------------------


def words_of(command: str) -> list[str]:
    """The flags of a command."""
    program = typer.Typer(add_completion=False)
    program.command(command)(function_of(command))
    parameters = typer.main.get_command(program).params
    return [word for each in parameters for word in (*each.opts, *each.secondary_opts)]


def options_of(command: str) -> set[str]:
    return set(words_of(command))


@pytest.mark.parametrize("command", ["compile", "run", "bench", "profile", "compare", "show"])
def test_commands_that_compile_have_a_flag_for_every_option(command: str) -> None:
    flags = {each.flag for each in flat_fields(infuse.CompileOptions)}
    own = (
        {"--prefix", "--embed", "--single", "--profile", "--size"}
        if command != "compile"
        else set()
    )
    assert flags - own <= options_of(command)
    rules = {each.flag for each in fields_of(infuse.Rules) if each.name not in ("extra", "runtime")}
    assert rules <= options_of(command)


def test_every_field_of_a_compression_has_a_flag() -> None:
    kinds = (*GROUPS["Compressing"], infuse.Examples)
    every = {each.flag for kind in kinds for each in fields_of(kind)}
    assert every - {"--level", "--dim"} <= options_of("compress")
    names = {f"--{name}" for name in METHODS if name != "sparse-int8"}
    assert names <= options_of("compress")


@pytest.mark.parametrize("command", COMMANDS)
def test_no_flag_of_a_command_is_there_twice(command: str) -> None:
    every = words_of(command)
    assert len(every) == len(set(every))


OF_FOLDERS = {"target", "threads", "prefix", "embed", "single", "profile", "size"}
"""Options of compiling that only a folder has a use for, or that are others' to decide."""


def test_sessions_and_served_models_have_the_options_of_compiling() -> None:
    every = {each.name for each in flat_fields(infuse.CompileOptions)}
    assert compile_fields(infuse.SessionOptions()).keys() == every - OF_FOLDERS
    served = compile_options(ModelConfig())
    assert served.keys() == every - OF_FOLDERS - {"data"}
    later = {"compile": "background"}
    assert infuse.CompileOptions.flat(**served) == infuse.CompileOptions(**later)
    assert compile_fields(infuse.SessionOptions())["compile"] == "background"
    written = b'{"precision": "auto", "max_difference": 0.5, "tune": true, "weights": "small"}'
    config = msgspec.json.decode(written, type=ModelConfig)
    options = infuse.CompileOptions.flat(**compile_options(config))
    auto = infuse.Auto(0.5)
    assert options == infuse.CompileOptions(precision=auto, tune=True, weights="small", **later)
    for wrong in (b'{"precision": "fp8"}', b'{"max_difference": -1}', b'{"target": "native"}'):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(wrong, type=ModelConfig)


# -- what strangers gave ---------------------------------------------------------------------------


def test_names_of_rules_may_come_from_an_iterator() -> None:
    assert infuse.Rules(disable=(name for name in ("A", "B"))).disable == frozenset("AB")
    assert infuse.Rules(only=iter(["A"])) == infuse.Rules(only="A")
    for wrong in (np.array(2), 3, [1]):
        with pytest.raises(OptionError, match="disable takes names of rules"):
            infuse.Rules(disable=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("number", [np.int64(2), np.int32(2), np.array(2), np.uint8(2)])
def test_numbers_of_array_libraries_become_numbers_of_python(number: Any) -> None:
    options = infuse.CompileOptions(threads=number)
    assert type(options.threads) is int
    assert repr(options) == "CompileOptions(threads=2)"
    assert hash(options) == hash(infuse.CompileOptions(threads=2))
    assert infuse.Turns(seconds=np.float32(0.5)).seconds == 0.5


@pytest.mark.parametrize(
    "make",
    [
        lambda: infuse.CompileOptions(threads=np.int64(-1)),
        lambda: infuse.Auto(max_difference=np.int64(-3)),
        lambda: infuse.Turns(rounds=np.int64(0)),
        lambda: infuse.Examples(batch=np.int64(0)),
        lambda: infuse.Tune(epochs=np.int64(0)),
        lambda: infuse.Tune(minutes=math.inf),
        lambda: infuse.Sparse(2.0),
        lambda: infuse.Sparse("x"),
        lambda: infuse.Sparse(math.nan),
        lambda: infuse.Sparse(block="q"),
        lambda: infuse.Sparse(block="0x1"),
        lambda: infuse.SparseInt8(block=""),
        lambda: infuse.Sparse(block="7x7"),
        lambda: infuse.SparseInt8(block="16x3"),
        lambda: infuse.Prune(0.5, kinds=[1]),
        lambda: infuse.CompileOptions(prefix="9"),
    ],
)
def test_limits_hold_for_every_kind_of_number_and_text(make: Callable[[], object]) -> None:
    with pytest.raises(OptionError):
        make()


def test_numbers_that_are_not_finite_are_told_so() -> None:
    with pytest.raises(OptionError, match="a finite number, more than 0"):
        infuse.Tune(minutes=math.inf)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: infuse.compile(g, infuse.Rules()), "an object of CompileOptions"),
        (lambda g: infuse.compile(g, 2), "an object of CompileOptions"),
        (lambda g: infuse.optimize(g, infuse.CompileOptions()), "an object of Rules"),
        (lambda g: infuse.optimize(g, 3), "level is 3"),
        (lambda g: infuse.optimize(g, None), "level is None"),
        (lambda g: infuse.compare(g, g, turns=3), "an object of Turns"),
        (lambda g: infuse.compress(g, "int4", contract=3), "an object of Contract"),
        (lambda g: infuse.compress(g, "int4", tune=infuse.Rules()), "an object of Tune"),
        (lambda g: infuse.optimize(g, "none", level="all"), "rules is given, and level besides"),
        (lambda g: infuse.compress(g, "int4", method="int8"), "methods is given, and method"),
        (lambda g: infuse.optimize(g, inputs={}, verify=False), "verify is False"),
        (lambda g: infuse.compress(g, prune_goal="macs"), "prune_goal: options of pruning"),
        (lambda g: infuse.compress(g, "int4", data=infuse.Examples(batch=2)), "a batch cuts data"),
        (lambda g: infuse.optimize(g, verify=3), "verify is 3. Hint: it is True, False, or arrays"),
        (lambda g: infuse.extract(g, inputs=3, outputs="y"), "inputs is 3"),
        (lambda g: infuse.extract(g, inputs=[3], outputs="y"), "inputs is [3]"),
        (lambda g: infuse.save(g, "m.onnx", opset="x"), "opset is 'x'"),
        (lambda g: infuse.view(g, "m.html", title=3), "title is 3"),
        (lambda g: infuse.view(g, 3), "path is 3. Hint: it is a path"),
        (lambda g: infuse.Auto(timer=3), "timer is 3"),
        (lambda g: AdamW(rate="x"), "rate is 'x'"),
    ],
)
def test_arguments_of_the_wrong_kind_or_in_both_ways_are_refused(
    call: Callable[[Any], object], message: str
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        with pytest.raises(OptionError) as caught:
            call(Graph("g"))
    assert message in str(caught.value)


def test_a_former_method_is_shown_as_it_is_written_now() -> None:
    with pytest.warns(FutureWarning, match=r"methods=Int8\(calibrator='mse'\) now"):  # noqa: SIM117
        with pytest.raises(InfuseError):
            infuse.compress(Graph("g"), calibrator="mse")


@pytest.mark.parametrize(
    "call",
    [
        lambda g: infuse.optimize(g, set_dims={"n": 2.5}),
        lambda g: infuse.optimize(g, set_dims={"n": "x"}),
        lambda g: infuse.optimize(g, set_dims={"n": True}),
        lambda g: infuse.optimize(g, set_dims=3),
        lambda g: infuse.inspect(g, infuse.Examples(dims={"n": "x"})),
        lambda g: infuse.inspect(g, options=infuse.CompileOptions(threads="2")),
        lambda g: infuse.inspect(g, options=infuse.CompileOptions(threads=1.5)),
        lambda g: infuse.inspect(g, options=infuse.CompileOptions(threads=True)),
        lambda g: infuse.profile(g, infuse.Examples(dims={"n": "x"})),
    ],
)
def test_sizes_and_threads_are_whole_numbers(call: Callable[[Any], object]) -> None:
    graph = parse('graph "g" (%x: float32[n, 4]) { %y = Relu(%x) return y = %y }')
    with pytest.raises(OptionError, match=r"whole number|number of threads|sizes of dynamic axes"):
        call(graph)


def test_sizes_may_be_numbers_of_numpy() -> None:
    graph = parse('graph "g" (%x: float32[n, 4]) { %y = Relu(%x) return y = %y }')
    better = infuse.optimize(graph, set_dims={"n": np.int64(3)})
    assert better.inputs[0].shape == (3, 4)


def test_sizes_that_given_inputs_contradict_are_refused() -> None:
    graph = parse('graph "g" (%x: float32[n, 4]) { %y = Relu(%x) return y = %y }')
    examples = infuse.Examples(X_OF_FOUR, dims={"n": 3})
    with pytest.raises(OptionError, match="'n' is to be 3, and the inputs have 2"):
        infuse.profile(graph, examples, runs=1)
