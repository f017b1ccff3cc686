"""The application of the admin port without a socket: models, traffic, rollouts and settings."""

import base64
import json
import logging
from typing import Any

import pytest

from infuse.serving.config import Telemetry
from tests.serving.rest_apps import admin_app
from tests.serving.rest_tools import FakeEngine, ask

pytestmark = pytest.mark.row("S1")


def test_models_are_loaded_with_configuration_and_files() -> None:
    engine = FakeEngine()
    app = admin_app(engine)
    body = {
        "parameters": {
            "config": '{"a": 1}',
            "file:1/model.onnx": base64.b64encode(b"\0onnx").decode(),
        }
    }
    assert (
        ask(app, "POST", "/v2/repository/models/echo/load", json.dumps(body).encode()).status == 200
    )
    assert ask(app, "POST", "/v2/repository/models/echo/load").status == 200
    assert (
        ask(
            app,
            "POST",
            "/v2/repository/models/echo/unload",
            b'{"parameters":{"unload_dependents":true}}',
        ).status
        == 200
    )
    assert engine.loads == [
        ("echo", '{"a": 1}', {"1/model.onnx": b"\0onnx"}),
        ("echo", "", {}),
        ("echo", True),
    ]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/repository/models/none/load", b"{}", 404),
        ("/v2/repository/models/echo/load", b"[]", 400),
        ("/v2/repository/models/echo/load", b'{"parameters":{"config":1}}', 400),
        ("/v2/repository/models/echo/load", b'{"parameters":{"file:1/m":"no base64!"}}', 400),
        ("/v2/repository/models/echo/load", b'{"parameters":{"other":"x"}}', 400),
        ("/v2/repository/models/echo/unload", b'{"parameters":{"unload_dependents":1}}', 400),
        ("/v2/models/echo/labels", b"{}", 400),
        ("/v2/models/echo/labels", b'{"label":"a","version":0}', 400),
        ("/v2/models/echo/split", b'{"weights":{"1":-1}}', 400),
        ("/v2/models/echo/shadow", b'{"shares":{"1":2}}', 400),
        ("/v2/models/echo/rollout", b'{"version":2,"canary":{"unknown":1}}', 400),
        ("/v2/models/none/promote", b"", 404),
        ("/v2/logging", b'{"log_verbose_level":-1}', 400),
        ("/v2/logging", b'{"log_info":false,"log_verbose_level":1}', 409),
        ("/v2/logging", b'{"log_file":"x"}', 409),
        ("/v2/trace/setting", b'{"unknown":1}', 400),
        ("/v2/trace/setting", b'{"trace_rate":"7"}', 409),
    ],
)
def test_wrong_changes_are_refused(path: str, body: bytes, status: int) -> None:
    engine = FakeEngine()
    reply = ask(admin_app(engine), "POST", path, body)
    assert reply.status == status
    assert reply.error
    assert engine.loads == []
    assert engine.told.calls == []


@pytest.mark.parametrize(
    ("verb", "body", "call"),
    [
        ("labels", {"label": "stable", "version": 2}, ("set_label", "stable", 2)),
        ("labels", {"label": "stable"}, ("remove_label", "stable")),
        ("split", {"weights": {"1": 0.5, "stable": 1}}, ("set_split", {"1": 0.5, "stable": 1.0})),
        ("shadow", {"shares": {"2": 0.5}}, ("set_shadow", {"2": 0.5})),
        ("rollout", {"version": 2}, ("start_rollout", 2, None)),
        ("rollback", {"reason": "slow"}, ("rollback", "slow")),
        ("promote", {}, ("promote",)),
        ("pause", {}, ("pause",)),
        ("resume", {}, ("resume",)),
    ],
)
def test_traffic_is_changed(verb: str, body: dict[str, Any], call: tuple[Any, ...]) -> None:
    engine = FakeEngine()
    reply = ask(admin_app(engine), "POST", f"/v2/models/echo/{verb}", json.dumps(body).encode())
    assert reply.status == 200
    assert reply.json == {"model": "echo", "calls": 1}
    assert engine.told.calls == [call]


def test_a_rollout_takes_its_own_steps() -> None:
    engine = FakeEngine()
    ask(
        admin_app(engine),
        "POST",
        "/v2/models/echo/rollout",
        b'{"version":2,"canary":{"steps":[0.5,1],"step_seconds":1}}',
    )
    assert engine.told.calls[0][2].steps == (0.5, 1.0)


def test_log_settings_are_those_in_force() -> None:
    logger = logging.getLogger("infuse")
    before = logger.level
    app = admin_app(telemetry=Telemetry(log_format="json"))
    try:
        for body, level in (
            (
                {"log_verbose_level": 1, "log_info": True, "log_warning": True, "log_error": True},
                logging.DEBUG,
            ),
            ({"log_verbose_level": 0}, logging.INFO),
            ({"log_info": False}, logging.WARNING),
            ({"log_warning": False}, logging.ERROR),
            ({"log_error": False}, logging.CRITICAL),
        ):
            shown = ask(app, "POST", "/v2/logging", json.dumps(body).encode())
            assert shown.status == 200
            assert logger.level == level
            assert shown.json == ask(app, "GET", "/v2/logging").json
            assert shown.json.items() >= body.items()
            assert shown.json["log_format"] == "json"
    finally:
        logger.setLevel(before)


def test_trace_settings_are_those_of_the_configuration() -> None:
    on = admin_app(telemetry=Telemetry(traces="http://127.0.0.1:1", trace_share=0.1))
    assert ask(on, "GET", "/v2/trace/setting").json["trace_rate"] == "10"
    assert (
        ask(on, "POST", "/v2/trace/setting", b'{"trace_rate":"10","trace_level":null}').status
        == 200
    )
    assert ask(on, "POST", "/v2/models/none/trace/setting", b"{}").status == 404
