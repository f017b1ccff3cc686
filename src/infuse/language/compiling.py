"""The compiled model of a decoder; what was compiled before is taken without reading weights."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from infuse.dtypes import DType
from infuse.frontends.gguf.container import GgufFile
from infuse.language.decoder import Decoder
from infuse.runtime.build_keys import key_of
from infuse.runtime.checked import sha256_of
from infuse.runtime.cpus import available_cpus
from infuse.runtime.interface import Model
from infuse.runtime.model import CompiledModel
from infuse.runtime.places import cache_root
from infuse.runtime.recorded import recorded_model
from infuse.runtime.records import Records

_MOST: Final = 1024


def compiled(
    file: GgufFile, decoder: Decoder, threads: int | None, cache: DType, exact: bool
) -> Model:
    """The compiled model of a file. Where the cache folder has it, it is that of the files'
    content, these options, this release and this machine.
    """
    count = threads or available_cpus()
    settings: dict[str, Any] = {"threads": count, "cache": cache.name, "exact": exact}
    contents = "".join(sha256_of(path) for path in file.paths)
    key = key_of(hashlib.sha256(contents.encode()).hexdigest(), "language", settings)
    records = Records(cache_root() / "language", _MOST)
    model = recorded_model(records.read(key)) if key else None
    if model is not None:
        return model
    from infuse.build.compile import compile_graph
    from infuse.language.architectures import weights_of
    from infuse.language.graph import decoder_graph
    from infuse.options import CompileOptions

    graph = decoder_graph(
        decoder, weights_of(file), name=file.path.stem, rounded=not exact, cache=cache
    )
    made = compile_graph(graph, CompileOptions(threads=threads))
    if key and isinstance(made, CompiledModel):
        records.write(key, {"folder": str(made.folder), "threads": made.threads})
    return made
