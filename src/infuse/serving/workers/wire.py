"""What server and worker tell each other. Tensors travel through shared memory, these messages
through a socket.
"""

from __future__ import annotations

import msgspec

Where = tuple[str, tuple[int, ...], int, int]  # the protocol's element type, shape, offset, bytes


class Start(msgspec.Struct, array_like=True, tag=1):
    """Serve the compiled model in `folder` over the socket that comes with this message, in memory
    that comes too.
    """

    instance: int
    folder: str
    threads: int
    awake: float


class Started(msgspec.Struct, array_like=True, tag=2):
    """An instance is ready, or (`error`) is not. `before`: bytes of its own that the worker had
    before it.
    """

    instance: int
    error: str = ""
    weights: int = 0
    before: int = 0


class Work(msgspec.Struct, array_like=True, tag=3):
    """Run the model on the inputs in `slot`, whose memory has `size` bytes; write the outputs
    behind `results`.

    `alone`: the server has no other requests.
    """

    slot: int
    size: int
    results: int
    inputs: list[Where]
    alone: bool = True


class Done(msgspec.Struct, array_like=True, tag=4):
    """The outputs of a run, or its error: name of the class, what, where, hint. `busy`: its
    thread's nanoseconds.
    """

    slot: int
    size: int
    outputs: list[Where]
    began: int
    ended: int
    error: tuple[str, str, str, str] | None = None
    busy: int = 0


encode = msgspec.msgpack.Encoder().encode
to_worker: msgspec.msgpack.Decoder[Start] = msgspec.msgpack.Decoder(Start)
from_worker: msgspec.msgpack.Decoder[Started] = msgspec.msgpack.Decoder(Started)
to_instance: msgspec.msgpack.Decoder[Work] = msgspec.msgpack.Decoder(Work)
from_instance: msgspec.msgpack.Decoder[Done] = msgspec.msgpack.Decoder(Done)

MOST_BYTES = 1 << 17  # of a message
