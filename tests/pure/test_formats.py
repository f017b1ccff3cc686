"""Options of formats: applied where they belong, refused elsewhere."""

from pathlib import Path

import numpy as np
import pytest

import infuse
from infuse.errors import OptionError
from infuse.frontends.formats import FORMATS
from infuse.options import FormatOptions
from tests.cli_tools import Cli

OPTIONS = (
    infuse.TorchScript(inputs={"x": infuse.Spec("float32", (2,))}),
    infuse.SavedModel(signature="serve"),
    infuse.HuggingFace(cache=True),
)


@pytest.fixture
def onnx_file(tmp_path: Path) -> Path:
    graph = infuse.trace(lambda x: x + 1, {"x": infuse.Spec("float32", (2,))})
    infuse.save(graph, tmp_path / "model.onnx")
    return tmp_path / "model.onnx"


@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: type(each).__name__)
def test_options_of_other_formats_are_refused(options: FormatOptions, onnx_file: Path) -> None:
    owner = next(format.name for format in FORMATS if format.options is type(options))
    with pytest.raises(OptionError) as raised:
        infuse.load(onnx_file, options)
    said = f"{type(options).__name__}(…) is for {owner}, and the model is ONNX"
    assert said in str(raised.value)


def test_options_of_objects_are_refused() -> None:
    with pytest.raises(OptionError, match="an object of a framework"):
        infuse.load(np.zeros(3), infuse.SavedModel(signature="serve"))


def test_every_option_has_a_format() -> None:
    assert {format.options for format in FORMATS} - {None} == {type(each) for each in OPTIONS}


def test_the_command_refuses_them_too(onnx_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--cache"], ["--signature", "serve"], ["--input", "x:float32:2"]):
        assert "and the model is ONNX" in Cli(capsys).refused("check", onnx_file, *option)
