"""What `infuse load` refuses: servers, models, options and inputs that do not fit."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from infuse.errors import NotFoundError, RequestError
from tests.cli_tools import Cli
from tests.serving.load_stage import SHORT, cli, engine, http, rpc, url
from tests.serving.rest_tools import FakeEngine

__all__ = ["cli", "engine", "http", "rpc", "url"]


def test_a_model_that_is_not_there_is_named(cli: Cli, url: str) -> None:
    assert "there is no model" in cli.refused("load", url, "nobody", *SHORT)
    assert "[INF-704]" in cli.refused("load", url, "echo", "--version", 77, *SHORT)


@pytest.mark.parametrize("scheme", ["http", "grpc"])
def test_a_server_that_is_not_there_is_named(cli: Cli, scheme: str) -> None:
    complaint = cli.refused("load", f"{scheme}://127.0.0.1:9", "echo", *SHORT)
    assert "127.0.0.1:9" in complaint
    assert "[INF-705]" in complaint


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["ftp://host", "echo"], "is not the address of a server"),
        (["host:8000", "echo"], "is not the address of a server"),
        (["http://[host", "echo"], "is not the address of a server"),
        (["http://host:x", "echo"], "is not the address of a server"),
        (["grpc://host", "echo"], "is not the address of a server"),
        (["http://h:1", "echo", "--token", "a\nb"], "no header can carry"),
        (["grpc://host:1/path", "echo"], "has a path"),
        (["grpc://host:1", "echo", "--json-tensors"], "gRPC has no JSON tensors"),
        (["http://h:1", "echo", "--concurrency", "0"], "not a list of positive numbers"),
        (["http://h:1", "echo", "--concurrency", "1.5"], "not a list of counts"),
        (["http://h:1", "echo", "--concurrency", "4096"], "not a list of counts"),
        (["http://h:1", "echo", "--rate", "fast"], "not a list of positive numbers"),
        (["http://h:1", "echo", "--rate", "nan"], "not a list of positive numbers"),
        (["http://h:1", "echo", "--rate", ""], "--rate '' is not a list of positive numbers"),
        (["http://h:1", "echo", "--concurrency", ""], "--concurrency '' is not a list"),
        (["http://h:1", "echo", "--seconds", "0"], "--seconds is 0.0. Hint: it is at least 0.01"),
        (["http://h:1", "echo", "--timeout", "nan"], "--timeout is nan"),
        (["http://h:1", "echo", "--dim", "x.0"], "--dim x.0 does not give"),
        (["http://h:1", "echo", "--inputs", "a.npz", "--batch", "2"], "has sizes of its own"),
    ],
)
def test_options_without_a_meaning_are_refused(
    cli: Cli, arguments: list[str], complaint: str
) -> None:
    assert complaint in cli.refused("load", *arguments)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["words", "--batch", "2"], "--batch needs a dynamic first axis"),
        (["echo", "--dim", "x.1=3"], "its dynamic axes are x.0"),
    ],
)
def test_sizes_that_are_fixed_are_refused(
    cli: Cli, http: str, arguments: list[str], complaint: str
) -> None:
    assert complaint in cli.refused("load", http, *arguments, *SHORT)


@pytest.mark.parametrize(
    ("arrays", "complaint"),
    [
        ({"y": np.zeros((1, 4), np.float32)}, "misses 'x'"),
        ({"x": np.zeros((1, 4), np.float32), "y": np.zeros(1)}, "has 'y'"),
        ({"x": np.zeros((1, 4))}, "the model takes FP32, not float64"),
        ({"x": np.zeros((1, 5), np.float32)}, "not the shape [1, 5]"),
        ({"x": np.zeros(4, np.float32)}, "not the shape [4]"),
    ],
)
def test_files_that_do_not_fit_are_refused(
    cli: Cli, http: str, tmp_path: Path, arrays: dict[str, Any], complaint: str
) -> None:
    path = tmp_path / "real.npz"
    np.savez(path, **arrays)
    assert complaint in cli.refused("load", http, "echo", "--inputs", path, *SHORT)


@pytest.mark.parametrize(
    ("error", "code"), [(RequestError("no such shape"), 703), (NotFoundError("gone"), 704)]
)
def test_a_request_that_is_refused_ends_the_measurement(
    cli: Cli, url: str, engine: FakeEngine, error: Exception, code: int
) -> None:
    engine.error = error
    complaint = cli.refused("load", url, "echo", *SHORT)
    assert f"[INF-{code}]" in complaint
