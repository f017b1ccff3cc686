"""A token that is limited to some models touches no others, whatever the way: pipelines, loads,
unloads, settings.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import grpc
import msgspec
import pytest

from infuse.serving.config import Security, Token
from infuse.serving.engine.engine import Engine
from infuse.serving.transports.coders import Coders
from infuse.serving.transports.rest.admin import CHANGES
from infuse.serving.transports.rest.app import AdminApp, DataApp
from infuse.serving.transports.rpc.calls import Calls
from infuse.serving.transports.rpc.schema import message
from infuse.serving.transports.security import Guard, new_token
from tests.serving import lifecycle_stage
from tests.serving.lifecycle_stage import Stage, ready

pytestmark = pytest.mark.row("S9")
stage = lifecycle_stage.stage

LIMITED, BROAD, READER = new_token(), new_token(), new_token()
TOKENS = (
    Token(sha256=LIMITED[1], role="admin", name="limited", models=("mine", "line")),
    Token(sha256=BROAD[1], role="admin", name="broad"),
    Token(sha256=READER[1], role="infer", name="reader", models=("line",)),
)
PORT = {"datatype": "FP32", "shape": [-1]}


def pipeline(*models: str) -> dict[str, Any]:
    steps = [
        {"model": m, "inputs": {"x": f"v{k}"}, "outputs": {"y": f"v{k + 1}"}}
        for k, m in enumerate(models)
    ]
    steps[0]["inputs"], steps[-1]["outputs"] = {"x": "x"}, {"y": "y"}
    ends = {"inputs": [{"name": "x", **PORT}], "outputs": [{"name": "y", **PORT}]}
    return {"pipeline": {**ends, "steps": steps}}


ENSEMBLE = {
    "name": "line",
    "platform": "ensemble",
    "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [-1]}],
    "ensemble_scheduling": {
        "step": [
            {
                "model_name": "other",
                "model_version": -1,
                "input_map": {"x": "x"},
                "output_map": {"y": "y"},
            }
        ]
    },
}


class Asker:
    """Asks for loads and unloads, over one of the protocols; the status and text of a refusal, or
    "".
    """

    def __init__(self, engine: Engine, rest: bool, token: str) -> None:
        config = engine.config
        guard = Guard(config)
        self.app = AdminApp(engine, config, guard)
        self.data = DataApp(engine, config, guard)
        self.calls = Calls(engine, config, Coders(config.limits.request_bytes), guard)
        self.rest = rest
        self.header = f"Bearer {token}"

    async def load(
        self, name: str, config: Any = None, files: dict[str, bytes] | None = None
    ) -> str:
        text = None if config is None else json.dumps(config)
        if self.rest:
            parameters = {} if text is None else {"config": text}
            parameters |= {
                name: base64.b64encode(content).decode() for name, content in (files or {}).items()
            }
            return await self.post(f"/v2/repository/models/{name}/load", {"parameters": parameters})
        request = message("RepositoryModelLoadRequest")(model_name=name)
        if text is not None:
            request.parameters["config"].string_param = text
        for path, content in (files or {}).items():
            request.parameters[path].bytes_param = content
        return await self._called(self.calls._load, request)

    async def unload(self, name: str, dependents: bool) -> str:
        if self.rest:
            body = {"parameters": {"unload_dependents": dependents}}
            return await self.post(f"/v2/repository/models/{name}/unload", body)
        request = message("RepositoryModelUnloadRequest")(model_name=name)
        request.parameters["unload_dependents"].bool_param = dependents
        return await self._called(
            partial(self.calls._unary, type(request), "admin", self.calls._unload), request
        )

    async def post(self, path: str, body: Any, app: Any = None) -> str:
        headers = {
            "host": "127.0.0.1",
            "authorization": self.header,
            "content-type": "application/json",
        }
        named = [(name.encode(), value.encode()) for name, value in headers.items()]
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "headers": named,
        }
        sent: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

        async def send(part: dict[str, Any]) -> None:
            sent.append(part)

        await (app or self.app)(scope, receive, send)
        status = sent[0]["status"]
        return (
            ""
            if status == 200
            else f"{status} {b''.join(bytes(p['body']) for p in sent[1:]).decode()}"
        )

    async def _called(self, call: Any, request: Any) -> str:
        context = _Context(self.header)
        try:
            await call(request.SerializeToString(), context)
        except _AbortedError:
            code = {grpc.StatusCode.PERMISSION_DENIED: 403}.get(context.code, context.code)
            return f"{code} {context.text}"
        return ""


class _AbortedError(Exception):
    pass


class _Context:
    def __init__(self, header: str) -> None:
        self.header = header
        self.code: Any = None
        self.text = ""

    def invocation_metadata(self) -> list[tuple[str, str]]:
        return [("authorization", self.header)]

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"

    async def abort(self, code: Any, text: str, _: Any = ()) -> None:
        self.code, self.text = code, text
        raise _AbortedError


def played(
    stage: Stage,
    rest: bool,
    play: Callable[[Engine, Asker, Asker], Awaitable[None]],
    loaded: tuple[str, ...],
) -> None:
    """Two models and the owner's pipeline of both; `play` gets the limited token's asker, and the
    broad one's.
    """
    stage.write("mine", text="times 3")
    stage.write("other", text="times 5")
    stage.chain("line", "mine", "other")
    security = Security(tokens=TOKENS, admin_on_data_port=True)

    async def main() -> None:
        engine = stage.engine(control="explicit", models=list(loaded))
        engine.config = msgspec.structs.replace(engine.config, security=security)
        async with engine:
            await play(engine, Asker(engine, rest, LIMITED[0]), Asker(engine, rest, BROAD[0]))

    asyncio.run(main())


BOTH = pytest.mark.parametrize("rest", [True, False], ids=["http", "grpc"])
ALL = ("mine", "other", "line")
YAML = b"pipeline: " + json.dumps(pipeline("mine", "other")["pipeline"]).encode()
DEFINED: dict[str, tuple[Any, dict[str, bytes]]] = {
    "config": (pipeline("other"), {}),
    "config with a member of its own": (pipeline("mine", "other"), {}),
    "ensemble": (ENSEMBLE, {}),
    "config and file": (pipeline("other"), {"file:1/note.txt": b"x"}),
}


@BOTH
@pytest.mark.parametrize("kind", DEFINED)
@pytest.mark.parametrize("name", ["line", "mine"])
def test_a_pipeline_of_ones_own_calls_models_of_ones_limit_only(
    name: str, kind: str, rest: bool, stage: Stage
) -> None:
    config, files = DEFINED[kind]
    if kind == "ensemble":
        config = {**config, "name": name}

    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        told = await limited.load(name, config, files)
        assert told.startswith("403"), told
        assert "not for the model 'other'" in told
        assert engine.models[name].override is None
        assert (await lifecycle_stage.ask(engine, "line"))[1] == 15
        assert (await lifecycle_stage.ask(engine, "mine"))[1] == 3

    played(stage, rest, play, ALL)


@BOTH
def test_files_that_hold_a_configuration_are_no_way_around(rest: bool, stage: Stage) -> None:
    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        told = await limited.load("line", None, {"file:config.yaml": YAML, "file:1/note.txt": b"x"})
        assert told, "a pipeline that calls another model was loaded"
        assert engine.models["line"].override is None
        assert (await lifecycle_stage.ask(engine, "line"))[1] == 15

    played(stage, rest, play, ALL)


@BOTH
def test_a_pipeline_of_models_within_the_limit_is_loaded(rest: bool, stage: Stage) -> None:
    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        assert not await limited.load("line", pipeline("mine"))
        assert (await lifecycle_stage.ask(engine, "line"))[1] == 3
        assert not await limited.load("line")
        assert (await lifecycle_stage.ask(engine, "line"))[1] == 15  # the owner's again

    played(stage, rest, play, ALL)


@BOTH
def test_a_load_that_would_load_others_is_refused(rest: bool, stage: Stage) -> None:
    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        told = await limited.load("line")
        assert told.startswith("403")
        assert "not for the model 'other'" in told
        assert ready(engine, "mine") + ready(engine, "other") + ready(engine, "line") == [
            True,
            False,
            False,
        ]
        assert not await broad.load("other")
        assert not await limited.load("line")
        assert (await lifecycle_stage.ask(engine, "line"))[1] == 15

    played(stage, rest, play, ("mine",))


@BOTH
def test_an_unload_that_would_unload_others_is_refused(rest: bool, stage: Stage) -> None:
    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        told = await limited.unload("line", dependents=True)
        assert told.startswith("403")
        assert "not for the model 'other'" in told
        assert [ready(engine, name)[0] for name in ALL] == [True] * 3
        assert not await limited.unload("line", dependents=False)
        assert [ready(engine, name)[0] for name in ALL] == [True, True, False]
        assert not await limited.load("line")
        assert not await broad.unload("line", dependents=True)
        assert [ready(engine, name)[0] for name in ALL] == [False] * 3

    played(stage, rest, play, ALL)


@BOTH
@pytest.mark.parametrize("verb", ["load", "unload"])
def test_models_outside_the_limit_are_not_loaded_or_unloaded(
    verb: str, rest: bool, stage: Stage
) -> None:
    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        told = await (
            limited.load("other", {}) if verb == "load" else limited.unload("other", True)
        )
        assert told.startswith("403")
        assert "'other'" in told
        assert engine.models["other"].override is None
        assert ready(engine, "other") == [True]

    played(stage, rest, play, ALL)


def test_what_another_pipeline_calls_too_stays_when_one_is_unloaded(stage: Stage) -> None:
    stage.chain("second", "other")

    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        assert not await broad.unload("line", dependents=True)
        assert [ready(engine, name)[0] for name in (*ALL, "second")] == [False, True, False, True]

    played(stage, True, play, (*ALL, "second"))


@pytest.mark.parametrize("path", sorted({route.template for route in CHANGES}))
def test_every_change_asks_for_its_model(path: str, stage: Stage) -> None:
    """Whatever changes another model, or the whole server, is refused: also what is added to the
    table later.
    """

    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        told = await limited.post(path.replace("{model_name}", "other"), {})
        assert told.startswith("403"), told
        assert "'other'" in told or "some models only" in told

    played(stage, True, play, ALL)


@pytest.mark.parametrize("name", ["line", "mine"])
def test_inference_on_the_owners_pipeline_needs_its_name_only(name: str, stage: Stage) -> None:
    async def play(engine: Engine, limited: Asker, broad: Asker) -> None:
        reader = Asker(engine, True, READER[0])
        body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1.0]}]}
        told = await reader.post(f"/v2/models/{name}/infer", body, reader.data)
        assert told.startswith("403" if name == "mine" else "")
        assert bool(told) == (name == "mine")

    played(stage, True, play, ALL)
