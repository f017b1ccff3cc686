"""A compiled model of which the interpreter does a part: stages of native code with stages of NumPy
in between.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from infuse import dtypes
from infuse.errors import CompiledModelError, InputError, OptionError
from infuse.ir.file import load as load_graph, save as save_graph
from infuse.ir.graph import Graph
from infuse.ir.types import TensorType, Type
from infuse.ops.core.evaluate import Evaluator
from infuse.ops.core.feeds import drawing_nodes
from infuse.ops.core.inference import infer_graph
from infuse.runtime.feeds import by_name
from infuse.runtime.folder import STAGES, check_replaceable, publish
from infuse.runtime.interface import COMPILED, PREBUILT
from infuse.runtime.model import CompiledModel
from infuse.runtime.shapes import TensorSpec
from infuse.runtime.stated import StatedShapes


@dataclass(frozen=True)
class ValueSpec(TensorSpec):
    """An input or output that need not be a tensor: then `text` is its type (`seq(float32[n, 3])`),
    and its element type NumPy's object.
    """

    text: str = ""

    @classmethod
    def of(cls, name: str, type: Type, optional: bool = False) -> ValueSpec:
        """The description of a value; `optional`: of an input with a default."""
        if not isinstance(type, TensorType):
            return cls(name, np.dtype(object), (), text=str(type))
        shape = tuple(d if isinstance(d, int) else str(d) for d in type.shape or ())
        return cls(name, type.dtype.numpy, shape, optional=optional, text=str(type))

    @classmethod
    def parse(cls, entry: Mapping[str, Any]) -> ValueSpec:
        """The spec that `describe` made a row of."""
        dtype = dtypes.by_name(entry["dtype"]).numpy if entry["dtype"] else np.dtype(object)
        optional = bool(entry.get("optional", False))
        return cls(
            str(entry["name"]),
            dtype,
            tuple(entry["shape"]),
            optional=optional,
            text=str(entry["text"]),
        )

    def describe(self) -> dict[str, Any]:
        """The spec as plain data."""
        is_tensor = self.is_tensor
        name = dtypes.by_numpy(self.dtype).name if is_tensor else ""
        more = {"optional": True} if self.optional else {}
        return {"name": self.name, "dtype": name, "shape": self.shape, "text": self.text, **more}

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor, no sequence, optional or map."""
        return not self.text.startswith(("seq(", "optional(", "map("))

    @property
    def other_type(self) -> str:
        """See TensorSpec."""
        return "" if self.is_tensor else self.text

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"


@dataclass
class HostedModel:
    """A `Model` in stages, run one after another.

    `parts` are the stages, `returned` the names of the outputs between them.
    """

    name: str
    inputs: tuple[ValueSpec, ...]
    outputs: tuple[ValueSpec, ...]
    returned: tuple[str, ...]
    parts: Sequence[CompiledModel | Graph]
    threads: int
    description: Mapping[str, Any] = field(default_factory=dict)
    """What the model says about itself, as in `infuse.ir.description`."""
    rows: Mapping[str, Any] = field(default_factory=dict)
    """What is proven of the rows of its batches, as `infuse.ops.core.rows` reports it."""
    stated: StatedShapes = field(init=False, compare=False)

    _stages: Sequence[CompiledModel | Evaluator] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self.stated = StatedShapes(self.description)
        self._stages = [Evaluator(p) if isinstance(p, Graph) else p for p in self.parts]

    @property
    def metadata(self) -> dict[str, Any]:
        """What is known of the model beside its interface."""
        result: dict[str, Any] = {"name": self.name, "host_steps": self.host_steps}
        if self.description:
            result["model"] = dict(self.description)
        if self.rows:
            result["rows"] = dict(self.rows)
        for part in self.native:
            own = part.metadata
            result |= {key: own[key] for key in ("precision", "precision_report") if key in own}
            for key in ("kept_in_fp32", "limited_kernels"):
                result[key] = result.get(key, {}) | own.get(key, {})
        return result

    @property
    def tier(self) -> str:
        """PREBUILT where a native stage is; COMPILED otherwise."""
        return PREBUILT if any(part.tier == PREBUILT for part in self.native) else COMPILED

    @property
    def is_random(self) -> bool:
        """Whether it draws random numbers: another run gives other outputs."""
        return any(
            next(drawing_nodes(part), None) is not None
            if isinstance(part, Graph)
            else part.is_random
            for part in self.parts
        )

    @property
    def host_steps(self) -> list[str]:
        """What the interpreter does: operator and node."""
        graphs = [part for part in self.parts if isinstance(part, Graph)]
        return [f"{node.kind} {node.name!r}" for graph in graphs for node in graph.nodes]

    @property
    def native(self) -> list[CompiledModel]:
        """The stages of native code."""
        return [part for part in self.parts if isinstance(part, CompiledModel)]

    @property
    def weights_bytes(self) -> int:
        """Bytes of the weights of native code."""
        return sum(part.weights_bytes for part in self.native)

    @property
    def arena_bytes(self) -> int:
        """Bytes of working memory of one context, after the calls so far."""
        return sum(part.arena_bytes for part in self.native)

    @property
    def arena_lower_bound(self) -> int:
        """The sum of what the native stages need at least."""
        return sum(part.arena_lower_bound for part in self.native)

    def run(self, inputs: Mapping[str, Any] | Any) -> dict[str, Any]:
        """The outputs by name, for arrays by name, or for an array where the model needs one.
        InputError when the inputs do not fit, RuntimeFailure when the run fails.
        """
        inputs = by_name(inputs, self.inputs)
        names = {spec.name: spec.optional for spec in self.inputs}
        wrong = sorted(name for name in names.keys() ^ inputs.keys() if not names.get(name, False))
        if wrong:
            raise InputError(
                f"inputs {', '.join(wrong)} are missing or not known",
                hint=f"the model takes {[*names]}",
            )
        values = dict(inputs)
        for part, stage in zip(self.parts, self._stages):
            read = {v.name: values[v.name] for v in part.inputs if v.name in values}
            values.update(stage.run(read))
        results = {spec.name: values[name] for spec, name in zip(self.outputs, self.returned)}
        for name, result in results.items():
            if isinstance(result, np.ndarray):
                self.stated.check(name, result.shape)
        return results

    def execute(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs in order for inputs in order."""
        if len(inputs) > len(self.inputs) or not all(
            spec.optional for spec in self.inputs[len(inputs) :]
        ):
            raise InputError(
                f"{len(inputs)} inputs were given to a model that takes {len(self.inputs)}"
            )
        pairs = zip(self.inputs, inputs)
        return list(
            self.run({s.name: x for s, x in pairs if x is not None or not s.optional}).values()
        )

    def __call__(self, *inputs: Any) -> Any:
        """The outputs for inputs in order: a tuple, or the value itself when it is only one."""
        results = self.execute(inputs)
        return results[0] if len(results) == 1 else tuple(results)

    def session(self, threads: int | None = None) -> HostedModel:
        """The model itself: its native stages have contexts of their own for each call in
        progress.
        """
        return self

    def give_back_weights(self) -> None:
        """Let the weights of native stages leave the memory until a run reads them again."""
        for part in self.native:
            part.give_back_weights()

    def close(self) -> None:
        """Free what the native stages hold."""
        for part in self.native:
            part.close()

    def __enter__(self) -> HostedModel:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # -- folders -----------------------------------------------------------------------------------

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write the model as a folder, which appears whole or not at all; an older compiled model
        there is replaced.
        """
        check_replaceable(Path(folder))
        publish(Path(folder), self._write)

    def _write(self, folder: Path) -> None:
        files = []
        for number, part in enumerate(self.parts):
            if isinstance(part, Graph):
                files.append(f"host_{number}.infuse")
                save_graph(part, folder / files[-1])
            else:
                files.append(f"native_{number}")
                shutil.copytree(part.folder, folder / files[-1])
        content = {
            "name": self.name,
            "inputs": [spec.describe() for spec in self.inputs],
            "outputs": [spec.describe() for spec in self.outputs],
            "returned": self.returned,
            "stages": files,
            "model": dict(self.description),
            "rows": dict(self.rows),
        }
        (folder / STAGES).write_text(json.dumps(content, indent=1), "utf-8")

    @classmethod
    def load(cls, folder: str | os.PathLike[str], threads: int | None = None) -> HostedModel:
        """The model in `folder`. CompiledModelError when the folder is broken."""
        path = Path(folder).resolve()
        try:
            content = json.loads((path / STAGES).read_text("utf-8"))
            inputs, outputs = (
                tuple(map(ValueSpec.parse, content[kind])) for kind in ("inputs", "outputs")
            )
            files, returned, name, description, rows = (
                content["stages"],
                tuple(content["returned"]),
                str(content["name"]),
                dict(content.get("model", {})),
                dict(content.get("rows", {})),
            )
            if not all(isinstance(file, str) and Path(file).name == file for file in files):
                raise ValueError("a stage is not a file of the folder")
        except (OSError, ValueError, KeyError, TypeError, OptionError) as error:
            raise CompiledModelError(
                f"{STAGES} cannot be read: {error}", where=str(path), hint="compile the model again"
            ) from error
        parts = [
            _host_stage(path / file)
            if file.endswith(".infuse")
            else CompiledModel.load(path / file, threads)
            for file in files
        ]
        counts = [part.threads for part in parts if isinstance(part, CompiledModel)]
        count = max(counts, default=threads or 1)
        return cls(name, inputs, outputs, returned, parts, count, description, rows)


def _host_stage(path: Path) -> Graph:
    """A stage of the interpreter, after what its operators need (a package, say) was looked for."""
    graph = load_graph(path)
    infer_graph(graph)
    return graph
