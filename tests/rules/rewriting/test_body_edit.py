"""Bodies, changed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.rules.context import BodyTooLarge
from amqproxy.rules.rewriting.body_edit import BodyEdit
from amqproxy.rules.scripting import Context
from amqproxy.rules.scripting.script_loader import ScriptError
from tests.rules.scene import Shelf, from_client

SEEN = from_client(BasicPublish(exchange="e"))
OWN = """
def shout(body, context):
    return body.upper() + context.client.user.encode()

def text(body, context):
    return body.decode() + "é"

def nothing(body, context):
    return None

def broken(body, context):
    return body / 2
"""


def edit(**keys: Any) -> BodyEdit:
    made = msgspec.convert(keys, BodyEdit)
    return made.resolved(Shelf({"own.py": OWN}, functions={"lib:reverse": lambda body, context: body[::-1]}))


def applied(body: bytes, **keys: Any) -> bytes:
    return edit(**keys).applied(body, SEEN, Context("r", SEEN))


@pytest.mark.parametrize(
    ("keys", "before", "after"),
    [
        ({"set": ""}, b"x", b""),
        ({"set": "{user}: {{}} {exchange}"}, b"x", b"guest: {} e"),
        ({"json_patch": [{"op": "add", "path": "/b", "value": [1]}]}, b'{"a": 1}', b'{"a":1,"b":[1]}'),
        ({"json_patch": [{"op": "remove", "path": "/a"}]}, b'{"a": 1}', b"{}"),
        ({"json_patch": [{"op": "replace", "path": "/l/0", "value": None}]}, b'{"l":[1,2]}', b'{"l":[null,2]}'),
        ({"json_patch": [{"op": "move", "from": "/a", "path": "/b"}]}, b'{"a":1}', b'{"b":1}'),
        ({"json_patch": [{"op": "copy", "from": "/a", "path": "/b"}]}, b'{"a":1}', b'{"a":1,"b":1}'),
        (
            {"json_patch": [{"op": "test", "path": "/a", "value": 1}, {"op": "replace", "path": "/a", "value": 2}]},
            b'{"a":1}',
            b'{"a":2}',
        ),
        ({"json_patch": [{"op": "add", "path": "", "value": "x"}]}, b"[]", b'"x"'),
        ({"json_patch": [{"op": "add", "path": "/x", "value": 1}]}, b'{"a":1.10,"n":123456789012345678901234567890}',
         b'{"a":1.10,"n":123456789012345678901234567890,"x":1}'),
        ({"json_patch": [{"op": "add", "path": "/x", "value": 1}]}, b'{"a":"\\u00e9"}', b'{"a":"\xc3\xa9","x":1}'),
        ({"replace": [{"text": "a.", "with": "b"}]}, b"a. a. ab", b"b b ab"),
        ({"replace": [{"text": "a", "with": r"\1"}]}, b"a\xff", b"\\1\xff"),
        ({"replace": [{"regex": r"(\d{4})-\d+", "with": r"\1-****"}]}, b"card 1234-5678", b"card 1234-****"),
        ({"replace": [{"regex": "a", "with": "é"}]}, b"bab", "béb".encode()),
        ({"replace": [{"text": "a", "with": "b"}, {"regex": "b+", "with": "c"}]}, b"abXab", b"cXc"),
        ({"call": "own.py:shout"}, b"x", b"Xguest"),
        ({"call": "own.py:text"}, b"x", b"x\xc3\xa9"),
        ({"call": "lib:reverse"}, b"abc", b"cba"),
        ({"set": '{{"a":1}}', "json_patch": [{"op": "replace", "path": "/a", "value": "b"}],
          "replace": [{"text": "b", "with": "c"}], "call": "lib:reverse"}, b"?", b'}"c":"a"{'),
        ({"otherwise": "pass", "json_patch": [{"op": "remove", "path": "/x"}]}, b"no json", b"no json"),
        ({"otherwise": "pass", "json_patch": [{"op": "remove", "path": "/x"}]}, b"{}", b"{}"),
        ({"otherwise": "pass", "replace": [{"regex": "a", "with": "b"}]}, b"a\xff", b"a\xff"),
    ],
)  # fmt: skip
def test_bodies(keys: dict[str, Any], before: bytes, after: bytes) -> None:
    assert applied(before, **keys) == after


@pytest.mark.parametrize(
    ("keys", "body", "reason"),
    [
        ({"json_patch": [{"op": "remove", "path": "/x"}]}, b"", "not JSON"),
        ({"json_patch": [{"op": "remove", "path": "/x"}]}, b"\xff", "not JSON"),
        ({"json_patch": [{"op": "remove", "path": "/x"}]}, b"[" * 100_000 + b"]" * 100_000, "not JSON"),
        ({"json_patch": [{"op": "remove", "path": "/x"}]}, b"{}", "does not fit"),
        ({"json_patch": [{"op": "test", "path": "/x", "value": 1}]}, b'{"x":2}', "does not fit"),
        ({"json_patch": [{"op": "add", "path": "/x/y", "value": 1}]}, b'{"x":"text"}', "does not fit"),
        ({"json_patch": [{"op": "add", "path": "/5", "value": 1}]}, b"[]", "does not fit"),
        ({"replace": [{"regex": "a", "with": "b"}]}, b"a\xff", "not UTF-8"),
        ({"call": "own.py:nothing"}, b"a", "own.py:nothing returned a NoneType"),
        ({"call": "own.py:broken"}, b"a", r"own.py:12: TypeError: unsupported operand"),
    ],
)
def test_what_does_not_fit_is_refused(keys: dict[str, Any], body: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        applied(body, **keys)


def test_the_patch_is_not_worn_out_by_use() -> None:
    made = edit(json_patch=[{"op": "add", "path": "/l", "value": []}, {"op": "add", "path": "/l/-", "value": {"a": 1}}])
    for _ in range(3):
        assert made.applied(b"{}", SEEN, Context("r", SEEN)) == b'{"l":[{"a":1}]}'


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        ({"json_patch": [{"op": "destroy", "path": "/a"}]}, "RFC 6902"),
        ({"json_patch": [{"op": "add", "path": "a", "value": 1}]}, "Location must start with /"),
        ({"json_patch": [{"op": "add", "value": 1}]}, "RFC 6902"),
        ({"json_patch": [{"op": "add", "path": "/a"}]}, "add needs a value"),
        ({"json_patch": [{"op": "move", "path": "/a"}]}, "move needs a from"),
        ({"replace": [{"with": "x"}]}, "one of `text` and `regex`"),
        ({"replace": [{"text": "a", "regex": "b", "with": "x"}]}, "one of `text` and `regex`"),
        ({"replace": [{"text": "a"}]}, "missing required field `with`"),
        ({"replace": [{"regex": "a", "with": "x\\"}]}, "not an escape"),
        ({"replace": [{"regex": "(", "with": "x"}]}, "not a regular expression"),
        ({"replace": [{"regex": "(a)", "with": r"\2"}]}, "refers to group 2"),
        ({"set": "{nobody}"}, "not a known name"),
        ({"call": "shout"}, "not of the form"),
        ({"call": "own.py:whisper"}, "own.py has no function `whisper`"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(keys: dict[str, Any], reason: str) -> None:
    with pytest.raises((msgspec.ValidationError, ValueError), match=reason):
        edit(**keys)


def test_what_has_not_been_loaded_is_not_called() -> None:
    with pytest.raises(ValueError, match="has not been loaded") as caught:
        BodyEdit(call="own.py:shout").applied(b"", SEEN, Context("r", SEEN))
    assert not isinstance(caught.value, ScriptError)


def test_the_largest_body_that_is_looked_into() -> None:
    body = b'{"a": "' + b"x" * 1000 + b'"}'
    seen = from_client(BasicPublish(exchange="e"), body=body, body_limit=1000)
    patch = {"op": "add", "path": "/b", "value": 1}
    for keys in (
        {"json_patch": [patch]},
        {"replace": [{"text": "x", "with": "y"}]},
        {"json_patch": [patch], "otherwise": "pass"},
    ):
        with pytest.raises(BodyTooLarge):
            edit(**keys).applied(body, seen, Context("r", seen))
    assert edit(set="new").applied(body, seen, Context("r", seen)) == b"new"


def test_a_patch_changes_no_later_message() -> None:
    adding = edit(json_patch=[{"op": "add", "path": "/a", "value": []}, {"op": "add", "path": "/a/-", "value": 1}])
    for _ in range(3):
        assert adding.applied(b"{}", SEEN, Context("r", SEEN)) == b'{"a":[1]}'
