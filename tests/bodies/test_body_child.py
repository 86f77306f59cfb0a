"""The process that reads bodies: its tasks, and their outcomes."""

from __future__ import annotations

import io
import json

import msgspec
import pytest

from amqproxy.bodies.body_child import LENGTH, BodyOutcome, BodyTask, serve

pytestmark = pytest.mark.once


def test_one_task_after_the_other() -> None:
    tasks = [
        BodyTask(body=b'{"a":1}', form="auto"),
        BodyTask(body=b"\xff", form="text"),
        BodyTask(body=b"x", form="text"),
    ]
    lines = [msgspec.msgpack.encode(each) for each in tasks]
    written = io.BytesIO()
    serve(io.BytesIO(b"".join(len(each).to_bytes(LENGTH) + each for each in lines)), written)
    written.seek(0)
    assert written.read(LENGTH) == bytes(LENGTH)  # it is ready
    found = []
    while head := written.read(LENGTH):
        found.append(msgspec.msgpack.decode(written.read(int.from_bytes(head)), type=BodyOutcome))
    assert found[0].view is not None
    assert json.loads(found[0].view.text) == {"a": 1}
    assert found[1] == BodyOutcome(reason="it is no text in UTF-8: byte 0 is 0xff")
    assert found[2].view is not None
