import pytest

from infuse.errors import ModelFileError
from infuse.frontends.protobuf import parse, schema

MESSAGES = schema(
    "tests.protobuf",
    {
        "Node": "name 1 string; sizes 2 repeated int64; attr 3 map Attr",
        "Attr": "f 1 float; raw 2 bytes; body 3 Node; names 4 repeated string",
    },
)
LARGER = schema("tests.protobuf.larger", {"Node": "name 1 string; new 9 string; sizes 2 int64"})


def node() -> bytes:
    message = MESSAGES["Node"](name="a", sizes=[1, -2])
    message.attr["pad"].f = 2.5
    message.attr["pad"].body.name = "inner"
    return message.SerializeToString()


def test_messages_are_parsed_as_they_are_declared() -> None:
    message = parse(MESSAGES["Node"], memoryview(node()), "here", "the model")
    assert list(message.sizes) == [1, -2]
    assert message.attr["pad"].body.name == "inner"
    assert message.attr["pad"].HasField("f")
    assert not message.attr["pad"].HasField("raw")


def test_fields_that_are_not_declared_are_skipped() -> None:
    data = LARGER["Node"](name="a", new="b", sizes=7).SerializeToString()
    assert parse(MESSAGES["Node"], data, "here", "the model").name == "a"


def test_truncated_messages_are_refused() -> None:
    with pytest.raises(ModelFileError, match=r"here.*the model is not well formed"):
        parse(MESSAGES["Node"], node()[:-1], "here", "the model")
