"""The applications of the data port and the admin port, without a socket."""

from typing import Any

from infuse.serving.transports.rest.app import AdminApp, DataApp
from infuse.serving.transports.security import Guard
from tests.serving.rest_tools import FakeEngine, config

INFER = "/v2/models/echo/infer"


def data_app(engine: FakeEngine | None = None, **fields: Any) -> DataApp:
    settings = config(**fields)
    return DataApp(engine or FakeEngine(), settings, Guard(settings))


def admin_app(engine: FakeEngine | None = None, **fields: Any) -> AdminApp:
    settings = config(**fields)
    return AdminApp(engine or FakeEngine(), settings, Guard(settings))
