"""Who may call the server and how much, TLS, what it refuses to start with, and what pages may ask
of it.
"""

from infuse.serving.transports.security.browsers import PAGE_HEADERS, check_browser
from infuse.serving.transports.security.certificates import Certificates
from infuse.serving.transports.security.exposure import check_exposure
from infuse.serving.transports.security.guard import Guard, Role
from infuse.serving.transports.security.rates import caller_address
from infuse.serving.transports.security.tls import check_tls, ssl_context
from infuse.serving.transports.security.tokens import new_token

__all__ = [
    "PAGE_HEADERS",
    "Certificates",
    "Guard",
    "Role",
    "caller_address",
    "check_browser",
    "check_exposure",
    "check_tls",
    "new_token",
    "ssl_context",
]
