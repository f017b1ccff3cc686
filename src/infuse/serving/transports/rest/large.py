"""What coders do with large messages of HTTP."""

from __future__ import annotations

from infuse.serving.transports.coders.memory import Memory
from infuse.serving.transports.coders.messages import Done, Job, load_to, pair_from, request_to
from infuse.serving.transports.rest import codec
from infuse.serving.transports.rest.loads import read_load


def request(job: Job, source: Memory, target: Memory) -> Done:
    """A request for inference from a body."""
    decoded = codec.decode(source.view(job.body), job.length, job.model, job.version)
    return Done(request=request_to(target, decoded))


def answer(job: Job, source: Memory, target: Memory) -> Done:
    """The body of the answer to a request for inference."""
    length, parts = codec.encode(*pair_from(source, job))
    return Done(length=length, parts=[target.put(part) for part in parts])


def load(job: Job, source: Memory, target: Memory) -> Done:
    """How a model is to be loaded, from a body."""
    return load_to(target, *read_load(source.view(job.body)))
