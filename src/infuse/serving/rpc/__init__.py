"""The Open Inference Protocol over gRPC: messages, codec, calls, health and the server."""

import os

# Workers are new programs, not copies of this process: gRPC need not get ready for copies, nor warn of them.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from infuse.serving.rpc.server import GrpcServer  # noqa: E402 (gRPC reads the variable when it is imported)

__all__ = ["GrpcServer"]
