"""The console: one page over the admin port, and the data that it shows."""

from infuse.serving.transports.console.assets import asset
from infuse.serving.transports.console.data import snapshot

__all__ = ["asset", "snapshot"]
