"""Requests, and the errors about malformed ones."""

import re
from pathlib import Path

import msgspec
import pytest

from amqproxy.control.held_commands import HeldCommand
from amqproxy.control.message_patch import Base64Bytes, MessagePatch
from amqproxy.control.request import (
    REQUESTS,
    ListHeld,
    ListRules,
    ListSessions,
    Release,
    Reload,
    WatchHeld,
    id_of,
    parse,
)
from amqproxy.control.request_error import RequestError


@pytest.mark.parametrize(
    ("line", "request_"),
    [
        (b'{"request": "reload"}', Reload()),
        (b'{"request": "rules", "id": 7}\r', ListRules(id=7)),
        (b'{"request": "sessions", "id": "a"}', ListSessions(id="a")),
        (b'{"request": "held"}', ListHeld(body=1024)),
        (b'{"request": "watch", "body": 0}', WatchHeld(body=0)),
        (b'{"request": "release", "session": 1, "number": 2}', Release(session=1, number=2)),
        (
            b'{"request": "release", "session": 1, "number": 2, "verdict": "refuse", "with": "nack", "code": 406}',
            Release(session=1, number=2, verdict="refuse", way="nack", code=406),
        ),
        (
            b'{"request": "release", "session": 1, "number": 2, "edit": {"fields": {"a": 1}, "body": {"base64": ""}}}',
            Release(session=1, number=2, edit=MessagePatch(fields={"a": 1}, body=Base64Bytes(""))),
        ),
    ],
)
def test_requests(line, request_):
    assert parse(line) == request_


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (b"reload", "a request is one line of JSON"),
        (b"\xff", "a request is one line of JSON"),
        (b'{"request": "release", "edit": {"fields": {"a": ' + b"[" * 100_000, "a request is one line of JSON"),
        (b"{}", "missing key `request`"),
        (b'{"request": "stop"}', "Invalid value 'stop'"),
        (b'{"request": "reload", "now": true}', "unknown key `now`"),
        (b'{"request": "held", "body": -1}', "body: Expected `int` >= 0"),
        (b'{"request": "held", "body": 1048577}', "body: Expected `int` <= 1048576"),
        (b'{"request": "release", "session": 1}', "missing key `number`"),
        (b'{"request": "release", "session": 1, "number": 1, "verdict": "no"}', "verdict: Invalid enum value 'no'"),
        (
            b'{"request": "release", "session": 1, "number": 1, "verdict": "drop", "edit": {}}',
            "what is to drop is not edited",
        ),
        (b'{"request": "release", "session": 1, "number": 1, "code": 406}', "need the verdict `refuse`"),
    ],
)
def test_what_is_malformed(line, text):
    with pytest.raises(RequestError, match=text) as wrong:
        parse(line)
    assert wrong.value.name == "malformed"


@pytest.mark.parametrize(("line", "id_"), [(b'{"id": 3, "x": 1}', 3), (b'{"id": []}', None), (b"{", None)])
def test_ids(line, id_):
    assert id_of(line) == id_


PAGE = Path(__file__).parent.parent.parent / "docs" / "control.md"
_ASKED = re.compile(r"^> (\{.*\})$", re.MULTILINE)
_BLOCK = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_the_requests_on_the_page_are_understood():
    page = PAGE.read_text()
    blocks = _BLOCK.findall(page)
    [held] = [each for each in blocks if '"until"' in each]
    [release] = [each for each in blocks if '"request"' in each]
    assert type(parse(release.encode())) is Release
    first, second, *others = [parse(line.encode()) for line in _ASKED.findall(page)]
    assert (type(first), type(second)) == (Reload, Release)
    assert {type(each).__struct_config__.tag for each in others} <= set(REQUESTS)
    assert msgspec.json.decode(held, type=HeldCommand).method == "basic.publish"
