"""Hostile requests and configurations, each with what must come of it."""

import gzip
import json
from collections.abc import Callable
from typing import Any

PATH = "/v2/models/add/infer"
SMALL = 1 << 17
FULL = 60 << 20


LAUGH = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + k)}: &{chr(98 + k)} [{','.join(['*' + chr(97 + k)] * 10)}]\n" for k in range(9)
)


def tensor(**fields: Any) -> dict[str, Any]:
    return {"name": "x", "shape": [1, 4], "datatype": "FP32", "data": [1, 2, 3, 4]} | fields


def body(*inputs: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"inputs": list(inputs or (tensor(),)), **more}).encode()


def http(
    content: bytes = b"",
    *headers: str,
    path: str = PATH,
    method: str = "POST",
    length: bool = True,
    host: bool = True,
) -> bytes:
    """A request as it is sent."""
    lines = [
        f"{method} {path} HTTP/1.1",
        *(["Host: 127.0.0.1"] if host else []),
        "Connection: close",
        *headers,
    ]
    lines += [f"Content-Length: {len(content)}"] if length else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def many(size: int, each: bytes, before: bytes, after: bytes, between: bytes = b",") -> bytes:
    """As many as go into so many bytes."""
    return (
        before + between.join([each] * max(2, (size - 200) // (len(each) + len(between)))) + after
    )


def numbered(size: int, make: Callable[[int], Any]) -> list[Any]:
    """Different parts, so many that they take about so many bytes."""
    return [make(number) for number in range(max(2, size // (len(json.dumps(make(10**6))) + 2)))]


def data(text: bytes, datatype: bytes = b"FP32", shape: bytes = b"[1,4]") -> bytes:
    return b'{"inputs":[{"name":"x","datatype":"%b","shape":%b,"data":%b}]}' % (
        datatype,
        shape,
        text,
    )


def binary(head: dict[str, Any], rest: bytes, length: str | None = None) -> bytes:
    text = json.dumps(head).encode()
    return http(
        text + rest, f"Inference-Header-Content-Length: {len(text) if length is None else length}"
    )


def raw_input(**parameters: Any) -> dict[str, Any]:
    plain = tensor(parameters=parameters)
    del plain["data"]
    return {"inputs": [plain]}


def chunked(*chunks: bytes, trailers: bytes = b"", extension: bytes = b"") -> bytes:
    framed = b"".join(b"%x%b\r\n%b\r\n" % (len(c), extension, c) for c in chunks)
    return (
        http(b"", "Transfer-Encoding: chunked", length=False)
        + framed
        + b"0\r\n"
        + trailers
        + b"\r\n"
    )


LISTS: dict[
    str, tuple[Callable[[int], bytes], int]
] = {  # whatever a request can hold many of, or much of
    "inputs of wrong names": (
        lambda n: http(body(*numbered(n, lambda k: tensor(name=f"n{k}")))),
        400,
    ),
    "inputs of one name": (
        lambda n: http(many(n, json.dumps(tensor()).encode(), b'{"inputs":[', b"]}")),
        400,
    ),
    "a long name": (lambda n: http(body(tensor(name="n" * n))), 400),
    "a long name that is escaped": (lambda n: http(body(tensor(name="\u0001" * (n // 6)))), 400),
    "a long datatype": (lambda n: http(body(tensor(datatype="F" * n))), 400),
    "a long shape": (lambda n: http(data(b"[1]", shape=many(n, b"1", b"[", b"]"))), 400),
    "a shape of long numbers": (
        lambda n: http(data(b"[1]", shape=b"[%b]" % (b"9" * (n - 200)))),
        400,
    ),
    "parameters": (lambda n: http(body(parameters={f"p{k}": 1 for k in range(n // 14)})), 400),
    "parameters of an input": (
        lambda n: http(body(tensor(parameters={f"p{k}": 1 for k in range(n // 14)}))),
        400,
    ),
    "a long parameter": (lambda n: http(body(parameters={"timeout": "9" * n})), 400),
    "parameters in one another": (
        lambda n: http(many(n, b'{"a":', b'{"inputs":[],"parameters":', b"", b"")),
        400,
    ),
    "outputs of wrong names": (
        lambda n: http(body(outputs=numbered(n, lambda k: {"name": f"n{k}"}))),
        400,
    ),
    "outputs of one name": (
        lambda n: http(body(outputs=numbered(n, lambda _: {"name": "y"}))),
        400,
    ),
    "lists in one another": (lambda n: http(data(b"[" * (n // 2) + b"]" * (n // 2))), 400),
    "lists that do not end": (lambda n: http(data(b"[" * n)), 400),
    "too many numbers": (lambda n: http(data(many(n, b"1", b"[", b"]"))), 400),
    "too many rows": (lambda n: http(data(many(n, b"[1,2,3,4]", b"[", b"]"))), 400),
    "a long number": (lambda n: http(data(b"[%b]" % (b"1" * (n - 200)))), 400),
    "texts for numbers": (lambda n: http(data(many(n, b'"a"', b"[", b"]"))), 400),
    "texts of another model": (lambda n: http(data(many(n, b'"a"', b"[", b"]"), b"BYTES")), 400),
    "texts as many as they say": (
        lambda n: http(
            data(many(n, b'"a"', b"[", b"]"), b"BYTES", b"[%d]" % max(2, (n - 200) // 4))
        ),
        0,
    ),
    "one long text": (
        lambda n: http(data(b'["%b"]' % (b"a" * (n - 200)), b"BYTES", b"[1,1]")),
        400,
    ),
    "numbers that are none": (lambda n: http(data(many(n, b"NaN", b"[", b"]"))), 400),
    "an unknown field": (
        lambda n: http(b'{"inputs":[],"more":%b}' % many(n, b"1", b"[", b"]")),
        400,
    ),
    "spaces": (lambda n: http(b'{"inputs":[%b]}' % (b" " * (n - 200))), 400),
    "no JSON": (lambda n: http(b"x" * n), 400),
    "bytes that are not text": (lambda n: http(b'{"inputs":"%b"}' % (b"\xff" * (n - 200))), 400),
    "numbers behind the JSON": (lambda n: binary(raw_input(binary_data_size=n), b"\0" * n), 400),
    "texts behind the JSON": (
        lambda n: binary(
            {
                "inputs": [
                    {
                        "name": "x",
                        "shape": [n // 4],
                        "datatype": "BYTES",
                        "parameters": {"binary_data_size": n},
                    }
                ]
            },
            b"\0" * n,
        ),
        0,
    ),
    "headers": (lambda n: http(b"{}", *[f"x-{k}: 1" for k in range(n // 10)]), 431),
    "a long header": (lambda n: http(b"{}", "x: " + "a" * n), 431),
    "a query": (lambda n: http(b"{}", path=f"{PATH}?{'a' * n}"), 431),
    "a path": (lambda n: http(b"{}", path="/" + "a/" * (n // 2)), 431),
    "trailers": (lambda n: chunked(body(), trailers=b"a: b\r\n" * (n // 6)), 431),
    "a long trailer": (lambda n: chunked(body(), trailers=b"a: %b\r\n" % (b"b" * n)), 431),
    "extensions of chunks": (lambda n: chunked(body(), extension=b";" + b"a" * n), 431),
    "chunks of a byte": (lambda n: chunked(*[b" "] * (n // 6), body()), 200),
    "a body that inflates": (
        lambda n: http(gzip.compress(b" " * (n << 4)), "Content-Encoding: gzip"),
        0,
    ),
    "parameters of a load": (
        lambda n: http(
            json.dumps({"parameters": {f"p{k}": 1 for k in range(n // 14)}}).encode(),
            path="/v2/repository/models/add/load",
        ),
        400,
    ),
    "a long configuration": (
        lambda n: http(
            json.dumps({"parameters": {"config": "x: " + "y" * n}}).encode(),
            path="/v2/repository/models/add/load",
        ),
        400,
    ),
    "settings of traces": (
        lambda n: http(
            json.dumps({f"p{k}": 1 for k in range(n // 14)}).encode(), path="/v2/trace/setting"
        ),
        400,
    ),
    "settings of logs": (
        lambda n: http(json.dumps({"log_format": "a" * n}).encode(), path="/v2/logging"),
        0,
    ),
    "labels": (
        lambda n: http(
            json.dumps({"label": "a" * n, "version": 1}).encode(), path="/v2/models/add/labels"
        ),
        400,
    ),
    "weights": (
        lambda n: http(
            json.dumps({"weights": {f"p{k}": 1 for k in range(n // 14)}}).encode(),
            path="/v2/models/add/split",
        ),
        0,
    ),
}

SINGLE: dict[str, tuple[bytes, int]] = {  # one thing wrong
    "two hosts": (http(body(), "Host: other"), 400),
    "no host": (http(body(), host=False), 400),
    "two lengths": (http(body(), "Content-Length: 5"), 400),
    "two lengths that agree": (http(body(), f"Content-Length: {len(body())}"), 400),
    "a length and chunks": (http(body(), "Transfer-Encoding: chunked"), 400),
    "two lengths of the JSON": (http(body(), *["Inference-Header-Content-Length: 5"] * 2), 400),
    "two tokens": (http(body(), "Authorization: Bearer a", "Authorization: Bearer b"), 400),
    "two codings": (http(body(), "Content-Encoding: gzip", "Content-Encoding: identity"), 400),
    "two types": (http(body(), "Content-Type: text/html", "Content-Type: application/json"), 400),
    "two origins": (http(body(), "Origin: http://127.0.0.1", "Origin: http://a"), 400),
    "a length below zero": (http(body(), "Content-Length: -1", length=False), 400),
    "a length that is none": (http(body(), "Content-Length: 0x10", length=False), 400),
    "a length without end": (http(body(), "Content-Length: " + "9" * 30, length=False), 400),
    "a body that is too large": (http(b"", "Content-Length: 99999999999", length=False), 413),
    "a chunk below zero": (chunked()[:-5] + b"-1\r\n", 400),
    "a folded header": (http(body(), "x: a\r\n b"), 400),
    "a header with a zero": (http(body(), "x: a\0b"), 400),
    "a header without a colon": (http(body(), "host"), 400),
    "a name with a space": (http(body(), "x y: 1"), 400),
    "an unknown method": (http(body(), method="BREW"), 400),
    "a method of another kind": (http(body(), method="PUT"), 405),
    "a connection": (http(b"", method="CONNECT", path="a:1"), 400),
    "an old version": (b"GET /\r\n\r\n", 404),
    "a version to come": (b"GET / HTTP/3.0\r\nHost: a\r\n\r\n", 400),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64, 400),
    "a path of no text": (http(b"", path="/v2/models/%ff/infer"), 400),
    "a path that goes up": (http(b"", path="/v2/models/../../etc/passwd"), 404),
    "an unknown model": (http(body(), path="/v2/models/none/infer"), 404),
    "an unknown version": (http(body(), path="/v2/models/add/versions/9/infer"), 404),
    "an unknown coding": (http(body(), "Content-Encoding: br"), 415),
    "a damaged body": (http(b"xx", "Content-Encoding: gzip"), 400),
    "a body that is cut off": (http(gzip.compress(body())[:-9], "Content-Encoding: gzip"), 400),
    "bytes behind the body": (http(gzip.compress(body()) + b"x", "Content-Encoding: gzip"), 400),
    "JSON longer than the body": (binary(raw_input(), b"", "999"), 400),
    "a length of JSON that is none": (binary(raw_input(), b"", "1e3"), 400),
    "a length of JSON below zero": (binary(raw_input(), b"", "-1"), 400),
    "a long length of JSON": (binary(raw_input(), b"", "9" * 30), 400),
    "a size below zero": (binary(raw_input(binary_data_size=-16), b"\0" * 16), 400),
    "a size beyond the body": (binary(raw_input(binary_data_size=1 << 62), b"\0" * 16), 400),
    "a size that is text": (binary(raw_input(binary_data_size="16"), b"\0" * 16), 400),
    "a size that is true": (binary(raw_input(binary_data_size=True), b"\0"), 400),
    "bytes of no input": (binary(raw_input(binary_data_size=16), b"\0" * 17), 400),
    "data twice": (
        binary({"inputs": [tensor(parameters={"binary_data_size": 16})]}, b"\0" * 16),
        400,
    ),
    "shared memory": (http(body(tensor(parameters={"shared_memory_region": "a"}))), 501),
    "no inputs": (http(b'{"inputs":[]}'), 400),
    "no object": (http(b"[]"), 400),
    "nothing": (http(b""), 400),
    "null": (http(b"null"), 400),
    "a shape below zero": (http(body(tensor(shape=[-1, 4]))), 400),
    "a shape of fractions": (http(body(tensor(shape=[1.5, 4]))), 400),
    "a shape beyond numbers": (http(body(tensor(shape=[1 << 62, 1 << 62]))), 400),
    "a shape without bytes": (http(body(tensor(shape=[0, 1 << 62], data=[]))), 400),
    "a number out of range": (http(data(b"[1e999,2,3,4]")), 400),
    "half a character": (http(data(b'["\\ud800"]', b"BYTES")), 400),
    "another element type": (http(body(tensor(datatype="INT8"))), 400),
    "no element type": (http(body(tensor(datatype="COMPLEX"))), 400),
    "a priority of text": (http(body(parameters={"priority": "first"})), 400),
    "a timeout below zero": (http(body(parameters={"timeout": -5})), 400),
    "classes below zero": (
        http(body(outputs=[{"name": "y", "parameters": {"classification": -1}}])),
        400,
    ),
    "binary data of text": (
        http(body(outputs=[{"name": "y", "parameters": {"binary_data": "yes"}}])),
        400,
    ),
    "an unknown output": (http(body(outputs=[{"name": "z"}])), 400),
    "a file above the model": (
        http(b'{"parameters":{"file:../../x":"AAAA"}}', path="/v2/repository/models/add/load"),
        400,
    ),
    "a file of no base64": (
        http(b'{"parameters":{"file:1/x":"?"}}', path="/v2/repository/models/add/load"),
        400,
    ),
    "a load of many processes": (
        http(
            b'{"parameters":{"config":"replicas: 100000"}}', path="/v2/repository/models/add/load"
        ),
        400,
    ),
    "a load with aliases": (
        http(
            json.dumps({"parameters": {"config": LAUGH}}).encode(),
            path="/v2/repository/models/add/load",
        ),
        400,
    ),
    "an unload of text": (
        http(
            b'{"parameters":{"unload_dependents":"yes"}}', path="/v2/repository/models/add/unload"
        ),
        400,
    ),
    "a weight below zero": (http(b'{"weights":{"1":-1}}', path="/v2/models/add/split"), 400),
    "an index of text": (http(b'{"ready":"yes"}', path="/v2/repository/index"), 400),
}

CONFIGURATIONS: dict[
    str, tuple[str, str]
] = {  # YAML, JSON or (with a brace first in the name) protobuf's text
    "aliases of aliases": (LAUGH, "aliases stand for"),
    "an alias of nothing": ("a: *b", "alias"),
    "an alias of itself": ("&a [*a]", "alias"),
    "aliases that lie deep": (
        "a0: &a0 [[1]]\n" + "".join(f"a{k}: &a{k} [[*a{k - 1}]]\n" for k in range(1, 40)),
        "deep",
    ),
    "aliases that are merged": (
        "a0: &a0 {b: 1}\n"
        + "".join(f"a{k}: &a{k} {{<<: [*a{k - 1}, *a{k - 1}]}}\n" for k in range(1, 30)),
        "aliases stand for",
    ),
    "lists in lists": ("[" * 100_000, "deep"),
    "tables in tables": ("".join(" " * k + "a:\n" for k in range(500)), "deep"),
    "tables of JSON": ('{"a":' * 50_000, "deep"),
    "dashes": ("- " * 100_000, "deep"),
    "questions": ("? " * 100_000, "deep"),
    "many fields": ("{" + ",".join(f"k{k}: v" for k in range(60_000)) + "}", "values"),
    "many elements": ("models: [" + "1," * 150_000 + "1]", "values"),
    "many pairs": ("[" + "a: b," * 60_000 + "]", "values"),
    "much text": ("x: '" + "a" * (4 << 20) + "'", "bytes"),
    "a number of base sixty": ("replicas: 1" + ":1" * 100_000, "without quotes"),
    "a long number": ("replicas: " + "1" * 100_000, "without quotes"),
    "a tag of Python": ("!!python/object/apply:os.system [ls]", "tags"),
    "a tag of a truth value": ("!!bool x", "tags"),
    "a tag of a time": ("!!timestamp x", "tags"),
    "a tag of a set": ("!!set {a, b}", "tags"),
    "a zero": ("a: \0", "not YAML"),
    "a tab": ("\ta: b", "not YAML"),
    "a list that does not end": ("a: [1, 2", "not YAML"),
    "several documents": ("a: 1\n---\nb: 2", "not YAML"),
    "no table": ("- a", "not a table"),
    "a long unknown field": ("a" * 900 + ": 1", "unknown field"),
    "replicas": ("replicas: 300", "workers.max_replicas"),
    "replicas beyond numbers": ("replicas: 99999999999999999999", ""),
    "rows of a batch": ("batching: {max_size: 1000000000}", "batching.max_size is"),
    "rows of a queue": ("batching: {max_queue: 1000000000}", "batching.max_queue is"),
    "levels": ("batching: {priority_levels: 1000000000}", "batching.priority_levels is"),
    "sizes of a warm-up": ("warmup: {sizes: {n: 1000000000}}", "warmup.sizes is"),
    "steps of a canary": (f"canary: {{steps: [{','.join(['0.5'] * 1000)}]}}", "canary.steps"),
    "objectives": ("objectives: [" + "{name: a}," * 100 + "]", "objectives is"),
    "inputs": ("inputs: [" + "{name: a, datatype: FP32}," * 5000 + "]", "inputs is"),
    "steps of a pipeline": (
        "pipeline: {inputs: [], outputs: [], steps: [" + "{builtin: softmax}," * 2000 + "]}",
        "pipeline.steps is",
    ),
    "a picture without end": (
        (
            "pipeline: {inputs: [], outputs: [], steps: [{builtin: decode_image, options: {size: "
            "1000000}}]}"
        ),
        "size is 1000000",
    ),
    "pictures without end": (
        (
            "pipeline: {inputs: [], outputs: [], steps: [{builtin: decode_image, "
            "options: {size: [1, "
            "1000000]}}]}"
        ),
        "size is 1000000",
    ),
    "tokens without end": (
        (
            "pipeline: {inputs: [], outputs: [], steps: [{builtin: tokenize, options: {max_length: "
            "1000000000}}]}"
        ),
        "max_length is",
    ),
    "{ messages in messages": ("a{" * 100_000, "text format"),
    "{ much text": ("a: 1 " * 200_000, "at most"),
    "{ many fields": ("a: 1 " * 20_000, "no such field"),
    "{ a long list": ("max_batch_size: [" + "1," * 20_000 + "1]", ""),
    "{ a long number": ("max_batch_size: " + "1" * 10_000, ""),
    "{ instances": ("instance_group [{ count: 300 kind: KIND_CPU }]", "workers.max_replicas"),
    "{ a text that does not end": ('name: "' + "a" * 10_000, "text format"),
    "{ a list that does not end": ("a: [1,", "text format"),
}
