"""What a server refuses to start with: ports that everybody reaches, and behind which nobody is
asked who they are.
"""

from __future__ import annotations

import ipaddress
import warnings
from collections.abc import Mapping

from infuse.errors import ConfigurationError
from infuse.serving.config import Listener, ServerConfig


def check_exposure(config: ServerConfig) -> None:
    """ConfigurationError when a listener is open to other machines, and neither tokens nor
    certificates of callers are asked for, unless `security.insecure` says that this is meant. A
    warning when tokens would travel without TLS.
    """
    with_tokens = len(config.security.tokens) > 0
    for name, listener in listeners(config).items():
        if not listener.enabled or is_loopback(listener.host):
            continue
        mutual = listener.tls is not None and listener.tls.client_ca is not None
        if not (with_tokens or mutual or config.security.insecure):
            raise ConfigurationError(
                f"{listener.host} lets other machines call, and everybody may do everything there",
                where=f"{name}.host",
                hint=(
                    "set security.tokens (`infuse serve --make-token` prints one), or tls with "
                    "client_ca; or give "
                    "--insecure, where something else keeps strangers away"
                ),
            )
        if with_tokens and listener.tls is None:
            warnings.warn(
                f"{name}: tokens travel over the network as plain text; set {name}.tls, or end TLS "
                "in a proxy",
                stacklevel=2,
            )


def listeners(config: ServerConfig) -> Mapping[str, Listener]:
    """The listeners of a configuration, by their names in it."""
    return {"http": config.http, "grpc": config.grpc, "admin": config.admin}


def is_loopback(host: str) -> bool:
    """Whether a host is reached from this machine only."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
