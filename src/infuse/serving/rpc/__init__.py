"""The Open Inference Protocol over gRPC: messages, codec, calls, health and the server."""

from infuse.serving.rpc.server import GrpcServer

__all__ = ["GrpcServer"]
