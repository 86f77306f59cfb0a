"""One live client of a mock, without sockets and clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.commands import CommandReader
from amqproxy.amqp091.frame import BODY, HEADER, Frame, encode_frame, encode_method
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReject,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from amqproxy.amqp091.properties import ContentHeader, Properties
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import Decoded, DecodedProtocolHeader, StreamEnded
from amqproxy.replay.dialogue import dialogues
from amqproxy.replay.mocking.amqp091.mock_connection import Amqp091MockConnection
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.dialects import AnyScript, scripts_of
from amqproxy.replay.mocking.mock_connection import CLOSING_TIME, HANDSHAKE_TIME, MockSettings
from amqproxy.replay.names import SharedNames
from tests.example_count import example_count
from tests.replay.mocking.local_mock import scripts_in
from tests.replay.playing import CAPTURES
from tests.replay.recordings import Recording, message

CONFIRMS = CAPTURES / "confirms.pcapng"
LARGE = CAPTURES / "consume-large.pcapng"


class Client:
    """What a test sends to a mock, and what comes back: methods with their channels, and bodies' sizes."""

    def __init__(
        self, *captures: Any, heartbeat: int = 0, scripts: list[AnyScript] | None = None, **options: Any
    ) -> None:
        self.now = 1000.0
        cast = Cast(scripts or scripts_in(*captures))
        self.mock = Amqp091MockConnection(cast, SharedNames(), MockSettings(**options), self.now)
        self._reader = FrameReader(frame_max=1 << 20)
        self.queue = ""
        self.mock.feed(PROTOCOL_HEADER, self.now)
        self.send(0, ConnectionStartOk(response=b"\0guest\0guest"))
        self.send(0, ConnectionTuneOk(2047, 131_072, heartbeat))
        self.opened = self.send(0, ConnectionOpen())
        for channel in (1, 2):
            self.opened += self.send(channel, ChannelOpen())

    def send(self, channel: int, method: Method, body: bytes = b"", properties: Properties | None = None) -> list[str]:
        data = encode_method(channel, method)
        if method.carries_content:
            header = ContentHeader(len(body), properties or Properties())
            data += encode_frame(HEADER, channel, header.encode())
            data += encode_frame(BODY, channel, body) if body else b""
        self.mock.feed(data, self.now)
        return self.received()

    def wait(self, seconds: float) -> list[str]:
        self.now += seconds
        self.mock.tick(self.now)
        return self.received()

    def received(self) -> list[str]:
        self._readers: dict[int, CommandReader] = getattr(self, "_readers", {})
        content_states = self._reader
        found = []
        for frame in _frames(content_states, self.mock.take_output()):
            if frame.kind == 8:
                found.append("heartbeat")
                continue
            command = self._readers.setdefault(frame.channel, CommandReader()).add(frame)
            if command is not None:
                method = command.method
                self.queue = getattr(method, "queue", "") or self.queue
                tag = f" {method.delivery_tag}" if hasattr(method, "delivery_tag") else ""
                code = f" {method.reply_code}" if hasattr(method, "reply_code") else ""
                found.append(f"{frame.channel} {method.name}{tag}{code}")
        return found


def _frames(reader: FrameReader, data: bytes) -> list[Frame]:
    frames = []
    while data:
        size = 8 + int.from_bytes(data[3:7])
        frames.append(Frame(data[:size]))
        data = data[size:]
    return frames


def test_confirms_have_the_numbers_of_the_live_publishes() -> None:
    client = Client(CONFIRMS, speed=0)
    arguments = Table({"x-max-length": 1, "x-overflow": "reject-publish"})
    assert client.send(1, QueueDeclare(exclusive=True, arguments=arguments)) == ["1 queue.declare-ok"]
    assert client.send(1, BasicPublish(routing_key="nowhere", mandatory=True), b"returned") == ["1 basic.return 312"]
    assert client.send(1, ConfirmSelect()) == ["1 confirm.select-ok"]
    name = client.queue
    assert client.send(1, BasicPublish(routing_key=name, mandatory=True), b"taken") == ["1 basic.ack 1"]
    assert client.send(1, BasicPublish(routing_key=name, mandatory=True), b"refused") == ["1 basic.nack 2"]
    assert client.send(1, BasicPublish(routing_key=name, mandatory=True), b"once more") == ["1 basic.nack 3"]
    assert client.send(1, ChannelClose()) == ["1 channel.close-ok"]
    client.send(0, ConnectionClose())
    client.mock.finish()
    assert [(str(each.kind), each.what.split()[0]) for each in client.mock.notes.differences] == [
        ("extra", "basic.publish"),
    ]


def test_deliveries_come_at_the_recorded_pace_and_within_the_prefetch() -> None:
    client = Client(LARGE, speed=0.001)  # what took 100 µs takes 0.1 s
    assert client.send(2, QueueDeclare(exclusive=True)) == []
    assert client.wait(100) == ["2 queue.declare-ok"]
    client.send(2, BasicQos(prefetch_count=2))
    assert client.wait(100) == ["2 basic.qos-ok"]
    client.send(2, BasicConsume(queue=client.queue))
    assert client.wait(100) == ["2 basic.consume-ok"]
    assert client.wait(100) == []  # nothing has been published yet
    for size in (10_000, 0, 4088, 4089):
        body = (bytes(range(256)) * 40)[:size]
        client.send(1, BasicPublish(routing_key=client.queue), body)
    assert client.wait(100) == ["2 basic.deliver 1", "2 basic.deliver 2"]
    assert client.wait(100) == []
    client.send(2, BasicAck(1))
    assert client.wait(100) == ["2 basic.deliver 3"]
    assert client.send(2, BasicAck(7)) == ["2 channel.close 406"]


def test_nothing_comes_after_close_ok() -> None:
    client = Client(LARGE, speed=0.001)
    assert client.send(2, QueueDeclare(exclusive=True)) == []
    assert client.send(0, ConnectionClose()) == ["0 connection.close-ok"]
    assert client.wait(2) == []


def test_time_is_limited_for_the_handshake_and_for_closing() -> None:
    scripts = scripts_in(CONFIRMS)
    silent = Amqp091MockConnection(Cast(scripts), SharedNames(), MockSettings(), 0.0)
    assert silent.wake_at == HANDSHAKE_TIME
    silent.tick(HANDSHAKE_TIME)
    assert silent.is_cut
    client = Client(CONFIRMS, speed=0)
    client.send(0, ConnectionClose())
    assert not client.mock.is_over
    client.wait(CLOSING_TIME)
    assert client.mock.is_cut


def test_heartbeats_are_live() -> None:
    client = Client(CONFIRMS, speed=0, heartbeat=4)
    assert client.wait(2) == ["heartbeat"]
    assert client.wait(1) == []
    client.wait(6)
    assert client.mock.is_cut


def test_a_recording_that_began_in_the_middle() -> None:
    client = Client(CAPTURES / "consume-large.joined-midway.pcapng", speed=0)
    assert client.opened[-3:] == ["0 connection.open-ok", "1 channel.open-ok", "2 channel.open-ok"]
    assert client.send(1, ConfirmSelect()) == ["1 channel.close 540"]


def sent_by_client(name: str) -> list[bytes]:
    """The frames of a recorded client after its handshake."""
    decoded = read_decoded(CAPTURES / name)
    frames = [each.frames for each in decoded if isinstance(each, Amqp091DecodedFrames) and each.sender == "client"]
    return [frame.raw for each in frames for frame in each if frame.channel]


def scripts_with(*sent: tuple[str, Method]) -> list[AnyScript]:
    """A recorded connection on which this was sent after connection.start, each a second after the one before."""
    ends = "1.2.3.4:5-6.7.8.9:5672"
    decoded: list[Decoded] = [DecodedProtocolHeader(0, 0, ends, "client", NAME, PROTOCOL_HEADER)]
    for second, (sender, method) in enumerate([("server", ConnectionStart()), *sent]):
        frames = [Frame(encode_method(0, method))]
        decoded.append(Amqp091DecodedFrames(second * 1_000_000_000, 0, ends, sender, frames))
    return scripts_of(dialogues([*decoded, StreamEnded(99_000_000_000, 0, ends, "the capture ends")]))


def test_what_the_server_did_unasked() -> None:
    """It has blocked the connection, and closed it: nothing that the client sent has led to that."""
    scripts = scripts_with(
        ("client", ConnectionStartOk(response=b"\0guest\0guest")),
        ("server", ConnectionTune(2047, 131_072, 0)),
        ("client", ConnectionTuneOk(2047, 131_072, 0)),
        ("client", ConnectionOpen()),
        ("server", ConnectionOpenOk()),
        ("server", ConnectionBlocked("low on memory")),
        ("server", ConnectionClose(320, "CONNECTION_FORCED - bye")),
    )
    client = Client(scripts=scripts)
    assert client.opened == ["0 connection.open-ok", "1 channel.open-ok", "2 channel.open-ok"]
    assert client.wait(1.9) == []
    assert client.wait(0.1) == ["0 connection.blocked"]
    assert client.wait(1) == ["0 connection.close 320"]


SENT = sent_by_client("consume-large.pcapng") + sent_by_client("transactions.pcapng")


@settings(max_examples=example_count(60), deadline=None)
@given(
    st.lists(st.sampled_from(SENT) | st.binary(max_size=30), max_size=40), st.lists(st.integers(1, 5000), max_size=20)
)
def test_whatever_a_client_sends_it_costs_only_itself(parts: list[bytes], cuts: list[int]) -> None:
    client = Client(LARGE, CAPTURES / "transactions.pcapng", speed=0, heartbeat=10)
    data = b"".join(parts)
    for cut in (*cuts, len(data)):
        client.mock.feed(data[:cut] or b"\x08\0\0\0\0\0\0\xce", client.now)
        data = data[cut:]
        client.wait(0.1)
    client.mock.finish()
    assert client.mock.is_over


def test_in_any_order_of_channels() -> None:
    """The live client uses the channels the other way round."""
    client = Client(LARGE, speed=0)
    assert client.send(1, QueueDeclare(exclusive=True)) == ["1 queue.declare-ok"]
    assert client.send(1, BasicQos(prefetch_count=2)) == ["1 basic.qos-ok"]
    assert client.send(2, BasicPublish(routing_key=client.queue), b"x") == []
    assert client.send(1, BasicConsume(queue=client.queue)) == ["1 basic.consume-ok", "1 basic.deliver 1"]


def test_messages_of_a_transaction_wait_for_its_commit() -> None:
    recording = Recording()
    recording.open(0)
    for channel in (1, 2):
        recording.open_channel(0, channel)
    recording.ask(0, 2, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk("c"))
    recording.ask(0, 1, TxSelect(), TxSelectOk())
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"x"))
    recording.ask(0, 1, TxCommit(), TxCommitOk())
    recording.server(0, 2, message(BasicDeliver("c", 1, routing_key="q"), b"x", channel=2))
    recording.close(0)
    client = Client(scripts=scripts_of(dialogues(recording.decoded)), speed=0)
    assert client.send(2, BasicConsume(queue="q", consumer_tag="c")) == ["2 basic.consume-ok"]
    assert client.send(1, TxSelect()) == ["1 tx.select-ok"]
    assert client.send(1, BasicPublish(routing_key="q"), b"x") == []
    assert client.send(1, TxCommit()) == ["2 basic.deliver 1", "1 tx.commit-ok"]


@pytest.mark.parametrize("live", [BasicNack(1, requeue=True), BasicReject(1, requeue=True)])
def test_a_message_comes_again_once_it_is_requeued(live: Method) -> None:
    """By the recorded command, or by another one that requeues."""
    recording = Recording()
    recording.open(0)
    recording.open_channel(0, 1)
    recording.ask(0, 1, BasicConsume(queue="q", consumer_tag="c"), BasicConsumeOk("c"))
    recording.client(0, 1, message(BasicPublish(routing_key="q"), b"x"))
    recording.server(0, 1, message(BasicDeliver("c", 1, routing_key="q"), b"x"))
    recording.client(0, 1, BasicNack(1, requeue=True))
    recording.server(0, 1, message(BasicDeliver("c", 2, redelivered=True, routing_key="q"), b"x"))
    recording.close(0)
    client = Client(scripts=scripts_of(dialogues(recording.decoded)), speed=0)
    assert client.send(1, BasicConsume(queue="q", consumer_tag="c")) == ["1 basic.consume-ok"]
    assert client.send(1, BasicPublish(routing_key="q"), b"x") == ["1 basic.deliver 1"]
    assert client.wait(9) == []
    assert client.send(1, live) == ["1 basic.deliver 2"]


IN_STEPS: list[tuple[str, Method]] = [
    ("client", ConnectionStartOk(mechanism="RABBIT-CR-DEMO", response=b"guest")),
    ("server", ConnectionSecure(b"Please tell me your password")),
    ("client", ConnectionSecureOk(b"My password is *****")),
]
"""A login by challenge and response, as RabbitMQ has it for demonstration."""


def logging_in(scripts: list[AnyScript], method: ConnectionStartOk, **options: Any) -> Client:
    """A client that has sent connection.start-ok, and nothing else yet."""
    client = Client.__new__(Client)
    client.now, client.queue, client._reader = 0.0, "", FrameReader(frame_max=1 << 20)
    client.mock = Amqp091MockConnection(Cast(scripts), SharedNames(), MockSettings(**options), 0.0)
    client.mock.feed(PROTOCOL_HEADER, 0.0)
    assert client.received() == ["0 connection.start"]
    client.mock.feed(encode_method(0, method), 0.0)
    return client


def test_a_login_in_steps() -> None:
    """It is asked what the recorded client was asked; one that logs in otherwise is not."""
    tuned = [("server", ConnectionTune(2047, 131_072, 0)), ("client", ConnectionTuneOk(2047, 131_072, 0))]
    scripts = scripts_with(*IN_STEPS, *tuned, ("client", ConnectionOpen()), ("server", ConnectionOpenOk()))
    client = logging_in(scripts, IN_STEPS[0][1])
    assert client.received() == ["0 connection.secure"]
    assert client.send(0, ConnectionSecureOk(b"My password is guest")) == ["0 connection.tune"]
    client.send(0, ConnectionTuneOk(2047, 131_072, 0))
    assert client.send(0, ConnectionOpen()) == ["0 connection.open-ok"]
    assert logging_in(scripts, ConnectionStartOk(response=b"\0guest\0guest")).received() == ["0 connection.tune"]
    refused = scripts_with(*IN_STEPS, ("server", ConnectionClose(403, "ACCESS_REFUSED")))
    client = logging_in(refused, IN_STEPS[0][1])
    assert client.received() == ["0 connection.secure"]
    assert client.send(0, ConnectionSecureOk(b"My password is wrong")) == ["0 connection.close 403"]


def test_a_password_that_is_asked_for() -> None:
    """By both mechanisms that have one; no client is let in by a mechanism that has none."""
    for response, expected in (
        (ConnectionStartOk(response=b"\0me\0mine"), "0 connection.tune"),
        (ConnectionStartOk(mechanism="AMQPLAIN", response=amqplain("me", "mine")), "0 connection.tune"),
        (ConnectionStartOk(mechanism="AMQPLAIN", response=amqplain("me", "yours")), "0 connection.close 403"),
        (ConnectionStartOk(mechanism="AMQPLAIN", response=b"\0"), "0 connection.close 403"),
        (IN_STEPS[0][1], "0 connection.close 403"),
    ):
        assert logging_in(scripts_in(CONFIRMS), response, user=("me", "mine")).received() == [expected]


def amqplain(name: str, password: str) -> bytes:
    return Table({"LOGIN": name, "PASSWORD": password}).octets
