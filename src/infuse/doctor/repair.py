"""A graph in which recorded calls mean what the framework computes."""

from __future__ import annotations

from collections.abc import Collection

from infuse.doctor.retrace import WrittenCall, retraced, written_calls
from infuse.errors import InfuseError
from infuse.ir.clone import clone
from infuse.ir.graph import Graph
from infuse.passes.inline import inlined
from infuse.rewrite.patch import redirect, remove_dead
from infuse.rewrite.refine import reinfer


def repaired(graph: Graph, texts: Collection[str]) -> tuple[Graph, dict[str, str]]:
    """A copy of `graph` in which the calls that are recorded as `texts` are traced again; why each
    of the others was not, by its text.
    """
    copy = clone(graph)
    copy.report = copy.compression = None
    left = dict.fromkeys(texts, "the file does not hold one result of the call")
    for written in list(written_calls(copy)):
        if written.call.text not in left:
            continue
        try:
            _replace(written)
            del left[written.call.text]
        except InfuseError as error:
            left[written.call.text] = error.what
    return copy, left


def _replace(written: WrittenCall) -> None:
    meaning, reads = retraced(written)
    values = dict(zip(meaning.inputs, reads))
    created, (result,) = inlined(meaning, written.graph, values)
    for node in created:
        node.metadata.update(written.nodes[-1].metadata)
    readers = list(written.result.users())
    name = written.result.name
    redirect(written.result, result)
    result.name = name
    reinfer(readers)
    remove_dead(written.nodes)
