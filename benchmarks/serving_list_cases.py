"""Messages with much of one thing: numbers, texts, inputs, parameters, …; each with the statuses
that it may get.

A case makes a message of about so many bytes. Those of HTTP are all bytes of a request (`METHOD
PATH` and so on), those of gRPC the bytes of one message.
"""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from onnx import TensorProto, helper

ECHOES: Final[Mapping[str, int]] = {
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "INT8": TensorProto.INT8,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "BOOL": TensorProto.BOOL,
    "BYTES": TensorProto.STRING,
}
"""Models whose output y is their input x, a list of a type; `echo_fp32` and so on."""
HOST: Final = "127.0.0.1"
_ROOM: Final = 400  # bytes for what is around a list
_LEAST: Final = 2


def echo(kind: int) -> bytes:
    """The ONNX model y = x."""
    ends = [helper.make_tensor_value_info(name, kind, ["n"]) for name in ("x", "y")]
    graph = helper.make_graph(
        [helper.make_node("Identity", ["x"], ["y"])], "echo", ends[:1], ends[1:]
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    ).SerializeToString()


@dataclass(frozen=True)
class Case:
    """`make` gives a message of about so many bytes; `statuses` are those that its answer may
    have.
    """

    make: Callable[[int], bytes]
    statuses: tuple[int | str, ...]
    method: str = "ModelInfer"


def http(
    content: bytes, *headers: str, path: str, length: bool = True, verb: str = "POST"
) -> bytes:
    """A request as it is sent."""
    lines = [f"{verb} {path} HTTP/1.1", f"Host: {HOST}", "Connection: close", *headers]
    lines += [f"Content-Length: {len(content)}"] if length else []
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + content


def many(size: int, each: bytes, before: bytes = b"[", after: bytes = b"]") -> tuple[bytes, int]:
    """A list of as many as go into so many bytes, and how many they are."""
    count = max(_LEAST, (size - _ROOM) // (len(each) + 1))
    return before + b",".join([each] * count) + after, count


def _inferred(datatype: str, content: bytes, *headers: str) -> bytes:
    return http(content, *headers, path=f"/v2/models/echo_{datatype.lower()}/infer")


def _body(datatype: str, text: bytes, shape: Sequence[int]) -> bytes:
    head = b'{"inputs":[{"name":"x","datatype":"%b","shape":%b,"data":' % (
        datatype.encode(),
        str(list(shape)).encode(),
    )
    return head + text + b"}]}"


def _listed(datatype: str, each: bytes, *codings: str) -> Callable[[int], bytes]:
    """A right request of a list of so many equal elements; compressed where a coding is named."""

    def make(size: int) -> bytes:
        text, count = many(size, each)
        body = _body(datatype, text, [count])
        if codings:
            body = gzip.compress(body, 1) if codings[0] == "gzip" else zlib.compress(body, 1)
        return _inferred(datatype, body, *[f"Content-Encoding: {coding}" for coding in codings])

    return make


def _numbered(size: int, make: Callable[[int], str]) -> str:
    """Different parts, joined by commas."""
    return ",".join(
        make(number) for number in range(max(_LEAST, (size - _ROOM) // (len(make(10**6)) + 1)))
    )


def _tensor(number: int) -> str:
    return f'{{"name":"n{number}","shape":[1],"datatype":"FP32","data":[1]}}'


def _request(
    more: str, inputs: str = '{"name":"x","shape":[1],"datatype":"FP32","data":[1]}'
) -> bytes:
    return _inferred("FP32", f'{{"inputs":[{inputs}]{more}}}'.encode())


def _parameters(size: int) -> str:
    return "{" + _numbered(size, lambda k: f'"p{k}":1') + "}"


def _of_input(**fields: str) -> str:
    plain = {"name": '"x"', "shape": "[1]", "datatype": '"FP32"', "data": "[1]"} | fields
    return "{" + ",".join(f'"{name}":{value}' for name, value in plain.items()) + "}"


def _texts_behind(size: int) -> bytes:
    count = (size - _ROOM) // 64
    content = ((60).to_bytes(4, "little") + b"a" * 60) * count
    parameters = {"binary_data_size": len(content)}
    tensor = {"name": "x", "shape": [count], "datatype": "BYTES", "parameters": parameters}
    head = json.dumps({"inputs": [tensor]}).encode()
    return _inferred("BYTES", head + content, f"Inference-Header-Content-Length: {len(head)}")


def _load(size: int, name: str, value: Callable[[int], str]) -> bytes:
    body = json.dumps({"parameters": {name: value(size - _ROOM)}}).encode()
    return http(body, path="/v2/repository/models/none/load")


def _changed(path: str, text: Callable[[int], str]) -> Callable[[int], bytes]:
    return lambda size: http(text(size).encode(), path=path)


REST: Final[Mapping[str, Case]] = {
    "numbers": Case(_listed("FP32", b"0.12345"), (200,)),
    "short numbers": Case(_listed("FP64", b"1"), (200,)),
    "whole numbers": Case(_listed("INT64", b"-1234567"), (200,)),
    "truth values": Case(_listed("BOOL", b"true"), (200,)),
    "NaN": Case(_listed("FP32", b"NaN"), (200,)),
    "infinities": Case(_listed("FP64", b"-Infinity"), (200,)),
    "texts": Case(_listed("BYTES", b'"%b"' % (b"a" * 80)), (200,)),
    "texts with escapes": Case(_listed("BYTES", b'"%b"' % (b"\\u00e9" * 14)), (200,)),
    "one long text": Case(
        lambda n: _inferred("BYTES", _body("BYTES", b'["%b"]' % (b"a" * (n - _ROOM)), [1])), (200,)
    ),
    "numbers in gzip": Case(_listed("FP32", b"0.12345", "gzip"), (200,)),
    "numbers in deflate": Case(_listed("FP32", b"0.12345", "deflate"), (200,)),
    "spaces in gzip": Case(
        lambda n: _inferred("FP32", gzip.compress(b" " * n, 1), "Content-Encoding: gzip"), (400,)
    ),
    "more than fits in gzip": Case(
        lambda n: _inferred("FP32", gzip.compress(b" " * (n << 4), 1), "Content-Encoding: gzip"),
        (400, 413),
    ),
    "texts behind the JSON": Case(_texts_behind, (200,)),
    "nested numbers": Case(
        lambda n: _inferred("FP32", _body("FP32", *_shaped(many(n, b"[1,2,3,4]"), 4))), (400,)
    ),
    "lists of one number": Case(
        lambda n: _inferred("FP32", _body("FP32", *_shaped(many(n, b"[1]"), 1))), (400,)
    ),
    "too many numbers": Case(
        lambda n: _inferred("FP32", _body("FP32", many(n, b"1")[0], [1])), (400,)
    ),
    "too many texts": Case(
        lambda n: _inferred("BYTES", _body("BYTES", *_shaped(many(n, b'"a"')))), (200, 400, 413)
    ),
    "objects": Case(
        lambda n: _inferred("FP32", _body("FP32", *_shaped(many(n, b'{"a":1}')))), (400,)
    ),
    "objects and NaN": Case(
        lambda n: _inferred("FP32", _body("FP32", *_shaped(many(n, b'{"a":1}', b"[NaN,")))), (400,)
    ),
    "lists in one another": Case(
        lambda n: _inferred("FP32", _body("FP32", b"[" * (n // 2) + b"]" * (n // 2), [1])), (400,)
    ),
    "lists that do not end": Case(
        lambda n: _inferred("FP32", _body("FP32", b"[" * n, [1])), (400,)
    ),
    "a long number": Case(
        lambda n: _inferred("FP32", _body("FP32", b"[%b]" % (b"1" * n), [1])), (400,)
    ),
    "inputs of wrong names": Case(lambda n: _request("", _numbered(n, _tensor)), (400,)),
    "inputs of one name": Case(lambda n: _request("", _numbered(n, lambda _: _tensor(0))), (400,)),
    "outputs of wrong names": Case(
        lambda n: _request(',"outputs":[' + _numbered(n, lambda k: f'{{"name":"n{k}"}}') + "]"),
        (400,),
    ),
    "parameters": Case(lambda n: _request(f',"parameters":{_parameters(n)}'), (400,)),
    "parameters of an input": Case(
        lambda n: _request("", _of_input(parameters=_parameters(n))), (400,)
    ),
    "a long parameter": Case(lambda n: _request(f',"parameters":{{"a":"{"9" * n}"}}'), (400,)),
    "a long id": Case(lambda n: _request(f',"id":"{"a" * n}"'), (400,)),
    "a long name": Case(lambda n: _request("", _of_input(name=f'"{"a" * n}"')), (400,)),
    "a long shape": Case(
        lambda n: _request("", _of_input(shape=many(n, b"1")[0].decode())), (400,)
    ),
    "an unknown field": Case(lambda n: _request(f',"more":{many(n, b"1")[0].decode()}'), (200,)),
    "spaces": Case(lambda n: _request(" " * n), (200,)),
    "no JSON": Case(lambda n: _inferred("FP32", b"x" * n), (400,)),
    "bytes that are not text": Case(
        lambda n: _inferred("FP32", b'{"inputs":"%b"}' % (b"\xff" * n)), (400,)
    ),
    "headers": Case(
        lambda n: _inferred("FP32", b"{}", *[f"x-{k}: 1" for k in range(n // 10)]), (431,)
    ),
    "a long configuration": Case(
        lambda n: _load(n, "config", lambda k: "x: " + "y" * k), (400, 404)
    ),
    "a file to load": Case(
        lambda n: _load(
            n, "file:1/model.onnx", lambda k: base64.b64encode(b"a" * (k * 3 // 4)).decode()
        ),
        (400, 404),
    ),
    "parameters of a load": Case(
        _changed("/v2/repository/models/none/load", lambda n: f'{{"parameters":{_parameters(n)}}}'),
        (400,),
    ),
    "weights": Case(
        _changed("/v2/models/echo_fp32/split", lambda n: f'{{"weights":{_parameters(n)}}}'),
        (400, 413),
    ),
    "settings": Case(_changed("/v2/trace/setting", _parameters), (400, 413)),
}


def _shaped(listed: tuple[bytes, int], *sizes: int) -> tuple[bytes, list[int]]:
    text, count = listed
    return text, [count, *sizes]


# --------------------------------------------------------------------------------------------- gRPC


def _varint(value: int) -> bytes:
    groups = bytearray()
    while value > 127:
        groups.append(value & 127 | 128)
        value >>= 7
    groups.append(value)
    return bytes(groups)


def field(number: int, content: bytes) -> bytes:
    """A field of a message that has a length."""
    return _varint(number << 3 | 2) + _varint(len(content)) + content


def _input(
    datatype: str,
    shape: Sequence[int],
    contents: bytes = b"",
    name: bytes = b"x",
    more: bytes = b"",
) -> bytes:
    """An input of a ModelInferRequest; `contents` are those of its InferTensorContents."""
    sizes = b"".join(map(_varint, shape))
    parts = field(1, name) + field(2, datatype.encode()) + field(3, sizes) + more
    return field(5, parts + (field(5, contents) if contents else b""))


def _message(*parts: bytes, model: str = "echo_fp32") -> bytes:
    return b"".join((field(1, model.encode()), *parts))


def _filled(datatype: str, number: int, each: bytes, off: int = 0) -> Callable[[int], bytes]:
    """Typed contents: packed elements in the field `number`; `off` is how many too many the shape
    says.
    """

    def make(size: int) -> bytes:
        count = max(_LEAST, (size - _ROOM) // len(each))
        contents = field(number, each * count)
        return _message(_input(datatype, [count + off], contents), model=f"echo_{datatype.lower()}")

    return make


def _listed_texts(size: int) -> bytes:
    count = (size - _ROOM) // 82
    return _message(_input("BYTES", [count], field(8, b"a" * 80) * count), model="echo_bytes")


def _raw_texts(length: int) -> Callable[[int], bytes]:
    """Raw contents: texts of 60 bytes that say they have `length`."""

    def make(size: int) -> bytes:
        count = (size - _ROOM) // 64
        content = (length.to_bytes(4, "little") + b"a" * 60) * count
        return _message(_input("BYTES", [count]), field(7, content), model="echo_bytes")

    return make


def _repeated(each: Callable[[int], bytes], *before: bytes) -> Callable[[int], bytes]:
    def make(size: int) -> bytes:
        return _message(*before, *map(each, range(max(_LEAST, size // len(each(10**6))))))

    return make


def _entry(number: int, name: bytes) -> bytes:
    """An entry of a table of parameters: NAME → the int64 1."""
    return field(number, field(1, name) + field(2, b"\x10\x01"))


_X: Final = _input("FP32", [1], field(6, b"\0" * 4))
_WRONG: Final = ("INVALID_ARGUMENT",)
_MUCH: Final = ("INVALID_ARGUMENT", "RESOURCE_EXHAUSTED")
_RIGHT: Final = ("OK",)
GRPC: Final[Mapping[str, Case]] = {
    "FP32": Case(_filled("FP32", 6, b"\0\0\x80\x3f"), _RIGHT),
    "FP64": Case(_filled("FP64", 7, b"\0\0\0\0\0\0\xf0\x3f"), _RIGHT),
    "BOOL": Case(_filled("BOOL", 1, b"\x01"), _RIGHT),
    "INT8": Case(_filled("INT8", 2, b"\x01"), _RIGHT),
    "INT32": Case(_filled("INT32", 2, b"\x81\x01"), _RIGHT),
    "INT64": Case(_filled("INT64", 3, b"\x81\x80\x01"), _RIGHT),
    "UINT32": Case(_filled("UINT32", 4, b"\x01"), _RIGHT),
    "UINT64": Case(_filled("UINT64", 5, b"\x81\x01"), _RIGHT),
    "BYTES": Case(_listed_texts, _RIGHT),
    "BYTES in a stream": Case(_listed_texts, _RIGHT, "ModelStreamInfer"),
    "one element of BYTES": Case(
        lambda n: _message(_input("BYTES", [1], field(8, b"a" * (n - _ROOM))), model="echo_bytes"),
        _RIGHT,
    ),
    "raw BYTES": Case(_raw_texts(60), _RIGHT),
    "raw BYTES that are longer": Case(_raw_texts(61), _WRONG),
    "raw BYTES of a huge length": Case(_raw_texts((1 << 32) - 1), _WRONG),
    "too few elements": Case(_filled("FP32", 6, b"\0\0\x80\x3f", 1), _WRONG),
    "too many elements": Case(_filled("FP32", 6, b"\0\0\x80\x3f", -1), _WRONG),
    "elements out of range": Case(_filled("INT8", 2, b"\x81\x01"), _WRONG),
    "elements of another type": Case(_filled("INT64", 6, b"\0\0\x80\x3f"), _WRONG),
    "no datatype": Case(_filled("FP31", 6, b"\0\0\x80\x3f"), _WRONG),
    "typed and raw contents": Case(
        lambda n: _message(
            _input("FP32", [1], field(6, b"\0" * (n // 8 * 4))), field(7, b"\0" * (n // 2))
        ),
        _WRONG,
    ),
    "raw contents of no input": Case(
        lambda n: _message(_input("FP32", [1]), field(7, b"\0") * (n // 3)), _WRONG
    ),
    "inputs of wrong names": Case(
        _repeated(lambda k: _input("FP32", [1], field(6, b"\0" * 4), b"n%d" % k)), _WRONG
    ),
    "inputs of one name": Case(_repeated(lambda _: _X), _WRONG),
    "inputs of a negative shape": Case(
        lambda n: _message(
            _input("FP32", [(1 << 64) - 1] * 2, field(6, b"\0" * (n // 4 * 4 - _ROOM)))
        ),
        _WRONG,
    ),
    "inputs of a huge shape": Case(
        lambda n: _message(_input("FP32", [1 << 62] * 2, field(6, b"\0" * (n // 4 * 4 - _ROOM)))),
        _WRONG,
    ),
    "a long shape": Case(lambda n: _message(_input("FP32", [1] * n, field(6, b"\0" * 4))), _WRONG),
    "a long shape of raw contents": Case(
        lambda n: _message(_input("FP32", [1] * n), field(7, b"\0" * 4)), _WRONG
    ),
    "outputs of wrong names": Case(_repeated(lambda k: field(6, field(1, b"n%d" % k)), _X), _WRONG),
    "outputs of one name": Case(_repeated(lambda _: field(6, field(1, b"y")), _X), _WRONG),
    "parameters": Case(_repeated(lambda k: _entry(4, b"p%d" % k), _X), _WRONG),
    "parameters of an input": Case(
        lambda n: _message(
            _input("FP32", [1], more=b"".join(_entry(4, b"p%d" % k) for k in range(n // 16)))
        ),
        _WRONG,
    ),
    "a long parameter": Case(
        lambda n: _message(_X, field(4, field(1, b"a") + field(2, field(3, b"9" * (n - _ROOM))))),
        _WRONG,
    ),
    "a long id": Case(lambda n: _message(_X, field(3, b"a" * (n - _ROOM))), _WRONG),
    "a long name": Case(lambda n: _message(_input("FP32", [1], name=b"a" * (n - _ROOM))), _WRONG),
    "a long name of a model": Case(
        lambda n: _message(_X, model="a" * (n - _ROOM)), ("INVALID_ARGUMENT", "NOT_FOUND")
    ),
    "unknown fields": Case(lambda n: _message(_X, b"\x78\x01" * (n // 2)), _WRONG),
    "unknown fields of an input": Case(
        lambda n: _message(_input("FP32", [1], more=b"\x78\x01" * (n // 2))), _WRONG
    ),
    "groups in one another": Case(lambda n: _message(_X, b"\x7b" * n), _WRONG),
    "a field that is cut off": Case(lambda n: _message(_X, field(7, b"a" * n)[:-1]), _WRONG),
    "no message": Case(lambda n: b"\xff" * n, _WRONG),
    "parameters of a load": Case(
        lambda n: b"".join((field(2, b"none"), *(_entry(3, b"p%d" % k) for k in range(n // 16)))),
        _WRONG,
        "RepositoryModelLoad",
    ),
    "a file to load": Case(
        lambda n: (
            field(2, b"none")
            + field(3, field(1, b"file:1/model.onnx") + field(2, field(4, b"a" * (n - _ROOM))))
        ),
        ("INVALID_ARGUMENT", "FAILED_PRECONDITION", "NOT_FOUND"),
        "RepositoryModelLoad",
    ),
    "a name to ask for": Case(lambda n: field(1, b"a" * n), _MUCH, "ModelReady"),
    "settings": Case(
        lambda n: b"".join(_entry(1, b"p%d" % k) for k in range(n // 16)), _MUCH, "TraceSetting"
    ),
}
