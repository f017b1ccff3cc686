"""The model server. `Engine` serves a repository inside a process; HTTP, gRPC and metrics are thin over it."""
