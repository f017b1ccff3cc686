"""SavedModel folders: which graph and signature are meant, and the values of variables."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from infuse.errors import ModelFileError, UnsupportedOperatorError
from infuse.frontends.protobuf import parse
from infuse.frontends.tensorflow.messages import MESSAGES

_DEFAULT: Final = "serving_default"
_INTERNAL: Final = "__saved_model_init_op"
_COLLECTIONS: Final = ("saved_model_main_op", "legacy_init_op")


def meta_graph(data: memoryview, where: str) -> Any:
    """The graph of a SavedModel that is for serving."""
    saved = parse(MESSAGES["SavedModel"], data, where, "the SavedModel")
    if not saved.meta_graphs:
        raise ModelFileError("the SavedModel has no graph", where=where)
    serving = [meta for meta in saved.meta_graphs if "serve" in meta.meta_info_def.tags]
    if not serving and len(saved.meta_graphs) > 1:
        tags = [list(meta.meta_info_def.tags) for meta in saved.meta_graphs]
        raise UnsupportedOperatorError(f"the SavedModel has graphs of the tags {tags}, none serve")
    return (serving or saved.meta_graphs)[0]


def initializer(meta: Any) -> str:
    """The node that fills the tables of a SavedModel, "" where there is none."""
    if _INTERNAL in meta.signature_def:
        return str(meta.signature_def[_INTERNAL].outputs[_INTERNAL].name)
    for name in _COLLECTIONS:
        if name in meta.collection_def:
            nodes = meta.collection_def[name].node_list.value
            return str(nodes[0]) if nodes else ""
    return ""


def assets(meta: Any, folder: Path) -> dict[str, Path]:
    """The files that a SavedModel brings, by the constants of the graph that are their names."""
    files = {}
    for asset in meta.asset_file_def:
        if Path(asset.filename).name != asset.filename:
            raise ModelFileError(f"the file {asset.filename!r} is not one of its folder `assets`")
        files[asset.tensor_info.name.partition(":")[0]] = folder / "assets" / asset.filename
    return files


def signature(meta: Any, name: str | None = None) -> tuple[str, Any]:
    """The signature of this name, else the one for serving, else the only one, with its name."""
    named = {key: value for key, value in meta.signature_def.items() if key != _INTERNAL}
    usable = {key: value for key, value in named.items() if value.outputs}
    if name is not None:
        if name not in named:
            raise ModelFileError(
                f"there is no signature {name!r}", hint=f"there are {', '.join(named) or 'none'}"
            )
        return name, named[name]
    if _DEFAULT in usable:
        return _DEFAULT, usable[_DEFAULT]
    if len(usable) == 1:
        return next(iter(usable.items()))
    if not usable:
        raise ModelFileError(
            "the SavedModel has no signature, so that nothing says what it computes",
            hint="save it with signatures=, as model.export does",
        )
    raise UnsupportedOperatorError(
        f"the SavedModel has the signatures {', '.join(sorted(usable))}, none is {_DEFAULT}",
        hint="choose one: infuse.load(folder, infuse.SavedModel(NAME)), or --signature NAME",
    )
