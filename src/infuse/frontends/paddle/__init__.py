"""Models of PaddlePaddle, read without Paddle: `.pdmodel` (a ProgramDesc) and the JSON of PIR, with
their parameters in `.pdiparams` or in files of one parameter each.

Both become programs of one form (`program.py`), whose operators have the names of PIR (`names.py`
says what they were called before). Parameters stay in the mapped file. A first size of -1 is the
symbol `batch`, one for all inputs; other sizes that are not fixed are symbols of their own.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from infuse.errors import ModelFileError
from infuse.frontends.files import map_file
from infuse.frontends.malformed import wellformed
from infuse.frontends.paddle import older, pir
from infuse.frontends.paddle.older import is_program
from infuse.frontends.paddle.reader import PaddleReader
from infuse.frontends.paddle.tensors import Tensors
from infuse.ir.collection import uncollected
from infuse.ir.graph import Array, Graph
from infuse.ops.core.sizes import numbering

_HINT: Final = "the file was damaged, or is not a model of Paddle; fetch or export it again"
_MODELS: Final = (".pdmodel", ".json")
_PARAMETERS: Final = ("__params__", "params")
"""Names of the file of all parameters beside a file called `__model__` or `model`."""


def model_file(path: Path) -> Path | None:
    """The file of the program that a path means: itself, the one beside a `.pdiparams`, or the only
    one in a folder; None where there is none.
    """
    if path.is_dir():
        named = [path / "__model__", *sorted(path.glob("*.pdmodel")), *sorted(path.glob("*.json"))]
        models = [file for file in named if file.is_file() and is_model(file)]
        if len(models) > 1:
            names = ", ".join(file.name for file in models)
            raise ModelFileError(f"the folder has several models: {names}", where=str(path),
                                 hint="give the path of one of them")  # fmt: skip
        return models[0] if models else None
    if path.suffix == ".pdiparams":
        beside = [path.with_suffix(suffix) for suffix in _MODELS]
        return next((file for file in beside if file.is_file() and is_model(file)), None)
    return path


def is_model(path: Path) -> bool:
    """Whether a file begins as a program does."""
    try:
        return is_head(bytes(map_file(path)[:4096]))
    except ModelFileError:
        return False


def is_head(head: bytes) -> bool:
    """Whether these are the first bytes of a program."""
    document = head.lstrip()
    return is_program(head) or (document[:1] == b"{" and b'"magic":"pir"' in _packed(document))


def _packed(document: bytes) -> bytes:
    return b"".join(document[:400].split())


def load(data: memoryview, where: str, path: Path | None) -> Graph:
    """The graph of a program in these bytes; parameters lie beside its path."""
    with wellformed(where, "the model", _HINT):
        module = older if is_program(data) else pir
        program = module.read_program(data, where, lambda names: _parameters(path, names, where))
        reader = PaddleReader(program)
        with uncollected(), numbering(reader.g.sizes.taken):
            return reader.graph()


def _parameters(path: Path | None, names: list[str], where: str) -> dict[str, Array]:
    if not names:
        return {}
    if path is None:
        raise ModelFileError(
            f"{len(names)} parameters lie in a file of their own, but the model came from memory",
            where=where,
            hint="load the model from its path",
        )
    beside = [path.with_suffix(".pdiparams"), *(path.with_name(name) for name in _PARAMETERS)]
    whole = next((file for file in beside if file.is_file()), None)
    if whole is not None:
        return Tensors(map_file(whole, "file of parameters"), str(whole)).all(names)
    parameters: dict[str, Array] = {}
    for name in names:
        file = path.with_name(name)
        if Path(name).name != name or not file.is_file():
            raise ModelFileError(
                f"there is no file of the parameter {name!r}, and no {beside[0].name}",
                where=where,
                hint="the file with the parameters has to lie beside the model",
            )
        single = Tensors(map_file(file, "file of a parameter"), str(file))
        parameters.update(single.all([name]))
    return parameters


__all__ = ["is_head", "load", "model_file"]
