"""One publish as a capture that can be replayed."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicAck, BasicDeliver, BasicPublish, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import SERVER
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.control.message_patch import MessagePatch
from amqproxy.dashboard.message_ring import Content
from amqproxy.dashboard.resend import FRAME_MAX, conversation, edited, publish_of, write_conversation

pytestmark = pytest.mark.once

PROPERTIES = Properties(message_id="m", headers=Table({"by": "alice"}))
DELIVERED = Content(SERVER, BasicDeliver("c", 7, True, "orders", "new"), PROPERTIES, 3, b"abc")


def test_a_delivery_is_published_as_it_was() -> None:
    publish = publish_of(DELIVERED)
    assert publish is not None
    assert publish.method == BasicPublish(exchange="orders", routing_key="new", mandatory=True)
    assert (publish.properties, publish.body) == (PROPERTIES, b"abc")


def test_what_is_edited_changes_alone() -> None:
    publish = publish_of(DELIVERED)
    assert publish is not None
    changed = edited(publish, MessagePatch(fields={"routing_key": "old"}, headers={"by": None}, body="x"))
    assert changed.method == BasicPublish(exchange="orders", routing_key="old", mandatory=True)
    assert (changed.properties, changed.body) == (Properties(message_id="m", headers=Table()), b"x")
    with pytest.raises(ValueError, match="not a field"):
        edited(publish, MessagePatch(fields={"key": "old"}))
    with pytest.raises(ValueError, match="255"):
        edited(publish, MessagePatch(fields={"routing_key": "x" * 256}))


def test_the_capture_has_the_publish_and_its_confirm(tmp_path: Path) -> None:
    publish = Command(1, BasicPublish(routing_key="q"), PROPERTIES, bytes(2 * FRAME_MAX))
    write_conversation(tmp_path / "one.pcapng", conversation(publish, "tenant"))
    decoded = list(read_decoded(tmp_path / "one.pcapng", lambda warning: pytest.fail(str(warning))))
    frames = [frame for each in decoded if isinstance(each, Amqp091DecodedFrames) for frame in each.frames]
    methods = [frame.index for frame in frames if frame.kind == 1]
    assert methods.index(BasicPublish.index) < methods.index(BasicAck.index)
    assert QueueDeclare.index not in methods
    assert sum(frame.kind == 3 for frame in frames) == 3
    assert b"tenant" in (tmp_path / "one.pcapng").read_bytes()
