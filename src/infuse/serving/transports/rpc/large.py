"""What coders do with large messages of gRPC."""

from __future__ import annotations

from infuse.serving.transports.coders.memory import Memory
from infuse.serving.transports.coders.messages import Done, Job, load_to, pair_from, request_to
from infuse.serving.transports.rpc import codec
from infuse.serving.transports.rpc.loads import read_load


def request(job: Job, source: Memory, target: Memory) -> Done:
    """A request for inference from a message."""
    return Done(request=request_to(target, codec.decode(bytes(source.view(job.body)))))


def answer(job: Job, source: Memory, target: Memory) -> Done:
    """The message that answers a request for inference."""
    return Done(parts=[target.put(codec.encode(*pair_from(source, job)))])


def streamed_answer(job: Job, source: Memory, target: Memory) -> Done:
    """The message of a stream that answers a request for inference."""
    return Done(parts=[target.put(codec.encode_streamed(*pair_from(source, job)))])


def load(job: Job, source: Memory, target: Memory) -> Done:
    """How a model is to be loaded, from a message."""
    return load_to(target, *read_load(bytes(source.view(job.body))))
