"""The Open Inference Protocol over gRPC: messages, codec, calls, health and the server."""

import os

# Workers are new programs, not copies of this process: gRPC need not get ready for copies, nor warn
# of them. It reads this when it is imported.
os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "false")

from infuse.serving.transports.rpc.server import GrpcServer

__all__ = ["GrpcServer"]
