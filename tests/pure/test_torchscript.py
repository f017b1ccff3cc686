"""Files of TorchScript that are damaged, and pickles that want more than weights."""

from __future__ import annotations

import io
import pickle
import random
import zipfile
from typing import Any

import numpy as np
import pytest

import infuse
from infuse.errors import BudgetError, InfuseError, ModelFileError
from infuse.frontends import pickles
from infuse.ir.verify import verify
from infuse.ops.core.evaluate import evaluate

MODULE = (
    b"\x80\x02c__torch__\nNet\n)\x81}(X\x01\x00\x00\x00kK\x03X\x01\x00\x00\x00l](K\x01K\x02eub."
)
SOURCE = """class Net(Module):
  training : bool
  def forward(self: __torch__.Net,
    x: Tensor) -> Tensor:
    y = x
    for n in range(self.k):
      y = torch.add(torch.mul(y, 2.), n)
    if torch.gt(float(torch.sum(y)), 0):
      z = torch.neg(y)
    else:
      z = torch.relu(y)
    a = annotate(List[Tensor], [])
    _0 = torch.append(a, z)
    _1 = torch.append(a, torch.slice(y, 0, 0, 2, 1))
    return torch.cat(a, 0)
"""
X = {"x": infuse.Spec("float32", (3,))}


def file_of(source: str | bytes = SOURCE, module: bytes = MODULE, **members: bytes) -> bytes:
    """A file of TorchScript."""
    text = source if isinstance(source, bytes) else source.encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("net/data.pkl", module)
        archive.writestr("net/constants.pkl", b"\x80\x02).")
        archive.writestr("net/code/__torch__.py", text)
        for name, content in members.items():
            archive.writestr(f"net/{name}", content)
    return buffer.getvalue()


def body(*lines: str) -> str:
    """A source whose forward has these lines."""
    head = SOURCE.partition("    y = x")[0]
    return head + "".join(f"    {line}\n" for line in lines)


def test_a_program_is_followed() -> None:
    graph = infuse.from_torchscript(file_of(), X)
    (y,) = evaluate(graph, {"x": np.array([1, 2, 3], np.float32)}).values()
    assert y.tolist() == [-12.0, -20.0, -28.0, 12.0, 20.0]


@pytest.mark.parametrize(
    "lines",
    [
        ["return y"],
        ["return torch.add(x, )"],
        ["return unknown(x)"],
        ["import os", "return x"],
        ["return (lambda: x)()"],
        ["return x.__class__"],
        ["return __torch__.Net.forward(self, x)"],
        ["return (self).forward(x, )"],
        ["return torch.cat([], 0)"],
        ["return torch.reshape(x, [7])"],
        ["return torch.zeros([9223372036854775807, 9223372036854775807])"],
        ["return torch.add(x, torch.pow(10, 1000000000))"],
        ["return torch.mul(x, [1, 2])"],
        ["return CONSTANTS.c9"],
        ["return torch.mul(x, torch.floordiv(1, 0))"],
        ["a = [x]", "b = torch.append(a, a)", "return torch.eq(a, a)"],
        ["a = torch.mul([1], 1000000000000)", "return x"],
        ["return torch.arange(1000000000000000000)[0:2]"],
        ["return torch.add(x, 1, out=x)"],
        ["return torch.to(x, 999)"],
    ],
)
def test_a_program_without_meaning_is_refused(lines: list[str]) -> None:
    with pytest.raises(InfuseError):
        evaluate(infuse.from_torchscript(file_of(body(*lines)), X), {"x": np.ones(3, np.float32)})


def test_a_program_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INFUSE_BUDGET", "nodes=2000")
    with pytest.raises(BudgetError, match="steps"):
        infuse.from_torchscript(file_of(body("while True:", "  pass", "return x")), X)


def test_deep_nesting_is_refused() -> None:
    text = "(" * 3000 + "x" + ")" * 3000
    with pytest.raises(ModelFileError):
        infuse.from_torchscript(file_of(body(f"return {text}")), X)
    text = "torch.neg(" * 2000 + "x" + ")" * 2000
    with pytest.raises(InfuseError):
        infuse.from_torchscript(file_of(body(f"return {text}")), X)


def test_mutated_files_give_errors_of_ours() -> None:
    """What is read nevertheless is a graph that holds together."""
    rng, refused = random.Random(7), 0
    for _ in range(300):
        source, module = bytearray(SOURCE.encode()), bytearray(MODULE)
        target = rng.choice([source, source, module])
        for _ in range(rng.choice([1, 1, 3])):
            place = rng.randrange(len(target))
            if rng.random() < 0.5:
                target[place] = rng.randrange(256)
            else:
                del target[place : place + rng.randrange(1, 6)]
        try:
            graph = infuse.from_torchscript(file_of(bytes(source), bytes(module)), X)
        except InfuseError:
            refused += 1
            continue
        verify(graph)
    assert 200 < refused < 300


# -- pickles ---------------------------------------------------------------------------------------


def unpickled(data: bytes) -> Any:
    return pickles.read(memoryview(data), "here")


@pytest.mark.parametrize("protocol", [2, 4])
def test_plain_data_is_read(protocol: int) -> None:
    data = {"a": [1, -2, 1 << 40, 2.5, None], "b": (True, ()), 3: "ä", "c": (1, 2, 3, 4)}
    assert unpickled(pickle.dumps(data, protocol)) == data


class Evil:
    def __reduce__(self) -> Any:
        return print, ("called",)


def test_functions_are_never_called() -> None:
    with pytest.raises(ModelFileError, match=r"print"):
        unpickled(pickle.dumps(Evil(), 2))


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\x80\x02", b"\x80\x02.", b"\x80\x02(.", b"\x80\x02K", b"\x80\x02u.",
        b"\x80\x02}]K\x01s.",
        b"\x80\x02X\xff\xff\xff\xffa.", b"\x80\x02h\x07.", b"\x80\x02NR.", b"\x80\x02N)b.",
        b"\x80\x02cos\nsystem\n)R.", b"\x80\x02cos\nsystem\n)\x81.", b"\x80\x02}))s.",
        b"\x80\x02NQ.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n)R.", b"\x80\x02I1\n.",
    ],
)  # fmt: skip
def test_damaged_pickles_are_refused(data: bytes) -> None:
    with pytest.raises(ModelFileError):
        unpickled(data)
