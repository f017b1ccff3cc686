"""What is offered for a name that does not exist: by its words first, then by its letters."""

from __future__ import annotations

import pytest

from infuse.cli.commands import COMMANDS, OTHER_WORDS
from infuse.errors import OptionError, did_you_mean
from infuse.passes.selection import find_rule
from tests.cli_tools import Cli


@pytest.mark.parametrize(
    ("name", "offered"),
    [
        ("FuseGelu", "FuseErfGelu"),
        ("fuse_gelu", "FuseErfGelu"),
        ("gelu", "Gelu"),
        ("FuseBatchNorm", "FuseConvBatchNormalization"),
        ("LayerNorm", "FuseLayerNormalization"),
        ("FuseConvBachNormalization", "FuseConvBatchNormalization"),
        ("fuseconvbatchnormalization", "FuseConvBatchNormalization"),
    ],
)
def test_rules_are_offered_by_their_words(name: str, offered: str) -> None:
    with pytest.raises(OptionError, match=rf"did you mean '?.*{offered}"):
        find_rule(name)


def test_a_name_like_no_other_is_answered_with_the_list() -> None:
    with pytest.raises(OptionError, match="infuse why --list names all rules"):
        find_rule("xyzzy")


@pytest.mark.parametrize(
    ("name", "names", "hint"),
    [
        ("imgae", ["image", "mask"], "did you mean 'image'?"),
        ("input", ["input_ids", "attention_mask"], "did you mean 'input_ids'?"),
        ("ids", ["input_ids", "attention_mask"], "did you mean 'input_ids'?"),
        ("ab", ["cd", "ef"], ""),
        ("", ["a"], ""),
        ("x", [], ""),
        ("a" * 300, ["a" * 299], ""),
        ("Relu", ["PRelu", "Relu6", "FuseRelu"], "did you mean 'PRelu' or 'Relu6'?"),
    ],
)
def test_names_are_offered(name: str, names: list[str], hint: str) -> None:
    assert did_you_mean(name, names) == hint


@pytest.mark.parametrize(
    ("verb", "meant"),
    [
        ("optimise", "optimize"),
        ("compil", "compile"),
        ("quantize", "compress"),
        ("quantise", "compress"),
        ("visualise", "view"),
        ("Run", "run"),
        ("benchmark", "bench"),
    ],
)
def test_commands_are_offered(verb: str, meant: str, cli: Cli) -> None:
    answer = cli(verb, "model.onnx")
    assert answer.status == 2
    assert f"Did you mean '{meant}'?" in " ".join(answer.err.replace("│", " ").split())


def test_words_that_others_use_lead_to_commands(cli: Cli) -> None:
    assert set(OTHER_WORDS.values()) <= COMMANDS.keys()
    assert not OTHER_WORDS.keys() & COMMANDS.keys()
    answer = cli("xyzzy")
    assert answer.status == 2
    assert "infuse --help lists them" in " ".join(answer.err.replace("│", " ").split())


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    return Cli(capsys)
