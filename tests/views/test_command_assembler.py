"""Commands of a connection before its protocol is known."""

from __future__ import annotations

from amqproxy.capture.decoded import DecodedProtocolHeader, StreamEnded
from amqproxy.views.command_assembler import CommandAssembler
from amqproxy.views.passed_command import PassedKind


def test_a_header_and_an_end_need_no_protocol() -> None:
    assembler = CommandAssembler(1, "a-b", 0)
    header = DecodedProtocolHeader(1, 1, "a-b", "client", "0-10", b"AMQP")
    found = [*assembler.feed(header), *assembler.feed(StreamEnded(2, 1, "a-b", "over"))]
    assert [(each.kind, each.text) for each in found] == [
        (PassedKind.PROTOCOL_HEADER, "0-10"),
        (PassedKind.END, "over"),
    ]
    assert assembler.cut() == []
