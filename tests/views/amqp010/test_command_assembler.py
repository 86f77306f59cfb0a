"""Controls and commands of 0-10; see also test_passed_commands."""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import ConnectionCloseOk, ConnectionHeartbeat
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.properties import DeliveryProperties, Header
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decoded import StreamEnded
from amqproxy.views.amqp010.command_assembler import Amqp010CommandAssembler
from amqproxy.views.passed_command import PassedKind
from tests.amqp010.samples import split


def test_a_delivery_has_the_places_of_its_header() -> None:
    assembler = Amqp010CommandAssembler(1, "a-b", 4)
    header = Header((DeliveryProperties(exchange="x", routing_key="k"),))
    data = Assembly(3, MessageTransfer(destination="c"), header, b"hello").encode()
    frames = [Frame(raw) for raw in split(data)]
    passed = Amqp010DecodedFrames(1, 1, "a-b", "server", frames, command_ids=[7] * len(frames))
    (found,) = assembler.feed(passed)
    assert (found.kind, found.channel, found.command_id) == (PassedKind.COMMAND, 3, 7)
    assert (found.places, found.size, found.body) == ({"exchange": "x", "routing_key": "k"}, 5, b"hell")


def test_a_connection_that_was_closed_gives_no_reason_at_its_end() -> None:
    assembler = Amqp010CommandAssembler(1, "a-b", 0)
    frames = [Frame(encode_method(0, each)) for each in (ConnectionHeartbeat(), ConnectionCloseOk())]
    found = list(assembler.feed(Amqp010DecodedFrames(1, 1, "a-b", "server", frames, command_ids=[None, None])))
    assert [each.kind for each in found] == [PassedKind.HEARTBEAT, PassedKind.COMMAND]
    (end,) = assembler.feed(StreamEnded(2, 1, "a-b", "reset"))
    assert (end.kind, end.text) == (PassedKind.END, "")
