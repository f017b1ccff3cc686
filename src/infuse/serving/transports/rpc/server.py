"""The gRPC server: listening, TLS, limits, and the services that it offers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import grpc
import grpc.aio
from grpc_reflection.v1alpha import reflection, reflection_pb2

from infuse.errors import ConfigurationError
from infuse.serving.config import Limits, Listener, ServerConfig
from infuse.serving.transports.coders import Coders
from infuse.serving.transports.rpc import health
from infuse.serving.transports.rpc.arrival import Arrival
from infuse.serving.transports.rpc.calls import Calls
from infuse.serving.transports.rpc.refusals import refuse
from infuse.serving.transports.rpc.schema import POOL, SERVICE
from infuse.serving.transports.security import Certificates, Guard
from infuse.serving.transports.security.tls import Files

if TYPE_CHECKING:
    from infuse.serving.engine.interface import ServingEngine

_MOST_CALLS: Final = 1024  # of one connection at once; a caller's others wait at its side


class GrpcServer:
    """The Open Inference Protocol over gRPC, with health checks (grpc.health.v1) and reflection.

    It runs on the event loop that starts it, which must be the engine's. `reuse_port`: several
    processes listen on the same port. `coders` read and write large messages; without any, it has
    its own. `certificates`: those of a listener with TLS, once started. Whoever looks at them lets
    it take new ones.
    """

    def __init__(
        self,
        engine: ServingEngine,
        config: ServerConfig,
        guard: Guard | None = None,
        *,
        reuse_port: bool = False,
        coders: Coders | None = None,
    ) -> None:
        self._coders = coders or Coders(config.limits.request_bytes)
        self._engine = engine
        self._config = config
        self._guard = guard
        self._reuse_port = reuse_port
        self._server: grpc.aio.Server | None = None
        self._port = 0
        self.certificates: Certificates | None = None

    @property
    def port(self) -> int:
        """The port that is listened on, once started."""
        return self._port

    async def start(self) -> None:
        """Listen; ConfigurationError when the address cannot be had or the certificates cannot be
        used.
        """
        tls = self._config.grpc.tls
        self.certificates = None if tls is None else Certificates(tls)
        self._server = grpc.aio.server(options=_options(self._config.limits, self._reuse_port))
        arrival = Arrival(self._config.limits, refuse)
        calls = Calls(self._engine, self._config, self._coders, self._guard)
        handlers = (
            calls.handlers(),
            health.Health(self._engine, self._guard).handlers(),
            _reflection(),
        )
        self._server.add_generic_rpc_handlers(tuple(map(arrival.timed, handlers)))
        self._port = _listen(self._server, self._config.grpc, self.certificates)
        await self._server.start()

    async def stop(self, grace: float | None = None) -> None:
        """Take no more calls, and end those that are not finished within `grace` seconds (none: at
        once).
        """
        if self._server is not None:
            await self._server.stop(grace)
            self._server = None


def _reflection() -> grpc.GenericRpcHandler:
    """What tells callers of the services and their messages, as a handler."""
    services = reflection.aio.ReflectionServicer(
        (SERVICE, health.NAME, reflection.SERVICE_NAME), POOL
    )
    handler = grpc.stream_stream_rpc_method_handler(
        services.ServerReflectionInfo,
        reflection_pb2.ServerReflectionRequest.FromString,
        reflection_pb2.ServerReflectionResponse.SerializeToString,
    )
    return grpc.method_handlers_generic_handler(
        reflection.SERVICE_NAME, {"ServerReflectionInfo": handler}
    )


def _listen(server: grpc.aio.Server, listener: Listener, certificates: Certificates | None) -> int:
    """Bind the address of a listener; its port."""
    host = f"[{listener.host}]" if ":" in listener.host else listener.host
    address = f"{host}:{listener.port}"
    try:
        if certificates is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, _credentials(certificates)))
    except RuntimeError as error:
        raise ConfigurationError(
            "it cannot be listened on",
            where=f"grpc {address}",
            hint="another process may have it: choose another port",
        ) from error


def _credentials(certificates: Certificates) -> grpc.ServerCredentials:
    """What a port takes that shows and asks for the certificates as they are when a connection
    begins.
    """
    served = certificates.files

    def renewed() -> grpc.ServerCertificateConfiguration | None:
        """Called by gRPC's own threads, one at a time; None: nothing is new."""
        nonlocal served
        files = certificates.files
        if files is served:
            return None
        served = files
        return _configuration(files)

    asked = served.client_ca is not None
    return grpc.dynamic_ssl_server_credentials(
        _configuration(served), renewed, require_client_authentication=asked
    )


def _configuration(files: Files) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(files.key, files.certificate)], files.client_ca
    )


def _options(limits: Limits, reuse_port: bool) -> list[tuple[str, int]]:
    """Arguments of the channel; times in milliseconds."""
    options = [
        ("grpc.max_receive_message_length", limits.request_bytes),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_allowed_incoming_connections", limits.connections),
        ("grpc.max_concurrent_streams", _MOST_CALLS),
        ("grpc.so_reuseport", int(reuse_port)),
        ("grpc.server_handshake_timeout_ms", _milliseconds(limits.header_seconds)),
        ("grpc.max_connection_idle_ms", _milliseconds(limits.idle_seconds)),
        # Connections whose other end is gone are found; callers may do the same, as often as once a
        # second.
        ("grpc.keepalive_time_ms", max(1000, _milliseconds(limits.idle_seconds))),
        ("grpc.keepalive_timeout_ms", 20_000),
        ("grpc.keepalive_permit_without_calls", 1),
        ("grpc.http2.min_ping_interval_without_data_ms", 1000),
        ("grpc.http2.max_ping_strikes", 2),
    ]
    if limits.grpc_connection_seconds:
        options.append(
            ("grpc.max_connection_age_ms", _milliseconds(limits.grpc_connection_seconds))
        )
        options.append(("grpc.max_connection_age_grace_ms", _milliseconds(limits.request_seconds)))
    return options


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
