"""What happened on all connections of a capture, in memory that is bounded for all of them together."""

from __future__ import annotations

import io
from collections import Counter
from itertools import chain

import pytest

from amqproxy.amqp010.protocol_header import HEADER as AMQP010_HEADER
from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import BasicPublish, ChannelOpen, ChannelOpenOk, ConfirmSelect, ConfirmSelectOk
from amqproxy.amqp091.protocol_header import HEADER, recognise
from amqproxy.capture import observed as observed_module
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import DecodedProtocolHeader
from amqproxy.capture.observed import observed
from amqproxy.peer import CLIENT, SERVER
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.observer import ObserverSettings
from tests.capture import building
from tests.capture.building import ACK, RST, SYN, ipv4, tcp
from tests.export.dialogue import Dialogue


@pytest.mark.parametrize(
    ("asked", "answer", "texts"),
    [
        (HEADER, AMQP010_HEADER, ["the server speaks AMQP 0-10, not AMQP 0-9-1"]),
        (HEADER, b"AMQP\3\1\0\0", ["the server speaks AMQP 1.0 (SASL), not AMQP 0-9-1"]),
        (AMQP010_HEADER, HEADER, ["the server speaks AMQP 0-9-1, not AMQP 0-10"]),
        (AMQP010_HEADER, AMQP010_HEADER, []),
        (b"AMQP\3\1\0\0", HEADER, []),
    ],
)
def test_a_server_that_answers_with_another_header(asked: bytes, answer: bytes, texts: list[str]) -> None:
    decoded = [
        DecodedProtocolHeader(number, 0, "10.0.0.1:1-10.0.0.2:5672", sender, recognise(data) or "", data)
        for number, (sender, data) in enumerate(((CLIENT, asked), (SERVER, answer)))
    ]
    found = observed(decoded, ObserverSettings(messages=False, findings=True))
    assert [(each.kind, each.text) for each in found if isinstance(each, Finding)] == [
        ("foreign-server", text) for text in texts
    ]


def test_open_messages_of_all_connections_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    dialogues = []
    for stream in range(20):
        dialogue = Dialogue(stream=stream).client(ConfirmSelect()).server(ConfirmSelectOk())
        for number in range(5):
            dialogue.publish("e", f"{stream}.{number}", b"x")
        dialogues.append(dialogue.end())
    decoded = [*chain(*(each[:-1] for each in dialogues)), *(each[-1] for each in dialogues)]
    for most, pending in ((observed_module.MAX_PENDING_BYTES, 0), (20 * 2000, 40)):
        monkeypatch.setattr(observed_module, "MAX_PENDING_BYTES", most)
        found = observed(decoded, ObserverSettings())
        publishes = [each for each in found if isinstance(each, MessageRecord) and each.type == "publish"]
        outcomes = Counter(each.outcome for each in publishes)
        assert len({each.routing_key for each in publishes}) == 100
        assert outcomes["pending"] >= pending
        assert (outcomes["pending"] == 0) is (pending == 0)


@pytest.mark.parametrize(
    ("window", "is_reset", "kinds"),
    [(0, True, ["stalled-confirms"]), (0, False, ["stalled-confirms"]), (512, True, []), (512, False, [])],
)
def test_a_broker_whose_window_stays_closed_has_read_nothing(window: int, is_reset: bool, kinds: list[str]) -> None:
    """RabbitMQ does not read from publishers under an alarm: its window of 0 is all that a capture shows of it."""

    def up(at: int, payload: bytes = b"", seq: int = 1, flags: int = ACK) -> tuple[int, bytes]:
        return at * 10**9, building.ethernet(ipv4(tcp(payload, seq=seq, ack=1, flags=flags)))

    def down(at: int, payload: bytes = b"", ack: int = 1, flags: int = ACK, window: int = 512) -> tuple[int, bytes]:
        segment = tcp(payload, source=5672, target=40000, seq=1, ack=ack, flags=flags, window=window)
        return at * 10**9, building.ethernet(ipv4(segment, source=building.SERVER, target=building.CLIENT))

    sent = HEADER + encode_method(1, ChannelOpen()) + Command(1, BasicPublish(), body=b"x").encode(0)
    end = 1 + len(sent)
    packets = [
        up(0, seq=0, flags=SYN),
        up(1, sent),
        down(1, encode_method(1, ChannelOpenOk()), end),
        down(2, ack=end, window=0),
        down(3, ack=end, window=window),
        up(50, seq=end, flags=RST | ACK if is_reset else ACK),
    ]
    reports = observed(read_decoded(io.BytesIO(building.pcap(packets))), ObserverSettings(findings=True))
    found = [each for each in reports if isinstance(each, Finding) and each.kind == "stalled-confirms"]
    assert [each.kind for each in found] == kinds
    assert all(each.text.startswith("the broker has read nothing for 48 s, while publishes wait") for each in found)
    packets.insert(-1, down(43, ack=end))
    again = observed(read_decoded(io.BytesIO(building.pcap(packets))), ObserverSettings(findings=True))
    opened = [each for each in again if isinstance(each, Finding) and each.kind == "stalled-confirms"]
    assert [each.kind for each in opened] == kinds
    assert all(each.text.startswith("the broker read nothing for 41 s, while publishes waited") for each in opened)
