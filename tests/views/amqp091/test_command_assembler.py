"""Commands of 0-9-1; see also test_passed_commands."""

from __future__ import annotations

from amqproxy.amqp091.frame import HEARTBEAT_FRAME, Frame, encode_method
from amqproxy.amqp091.methods import ConnectionCloseOk
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import StreamEnded
from amqproxy.views.amqp091.command_assembler import Amqp091CommandAssembler
from amqproxy.views.passed_command import PassedKind


def test_a_connection_that_was_closed_gives_no_reason_at_its_end() -> None:
    assembler = Amqp091CommandAssembler(1, "a-b", 0)
    frames = [Frame(HEARTBEAT_FRAME), Frame(encode_method(0, ConnectionCloseOk()))]
    found = list(assembler.feed(Amqp091DecodedFrames(1, 1, "a-b", "server", frames)))
    assert [each.kind for each in found] == [PassedKind.HEARTBEAT, PassedKind.COMMAND]
    (end,) = assembler.feed(StreamEnded(2, 1, "a-b", "reset"))
    assert (end.kind, end.text) == (PassedKind.END, "")
