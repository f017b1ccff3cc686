"""Large messages are read and written by processes beside the server, whose loop answers others
meanwhile.

One call of a reader of JSON or of protocol buffers keeps Python's lock until it is done, so a
thread would not help.
"""

from infuse.serving.transports.coders.pool import Coders

__all__ = ["Coders"]
