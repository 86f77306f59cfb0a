"""A recording of shared connections shows that none of their channels was ever two clients' at a time."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from amqproxy.amqp091.frame import BODY, METHOD, Frame, encode_frame, every_frame
from amqproxy.amqp091.methods import ChannelClose, ChannelCloseOk, ChannelOpen, ConnectionStartOk
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.control import ControlClient
from tests.real import raw
from tests.real.neighbourhood import Neighbourhood, many_channel_errors
from tests.real.publishers import CONFIRM_SELECT, declare, drained
from tests.real.rabbitmq import RabbitMQ
from tests.transcripts.words import octets

pytestmark = pytest.mark.real


_OTHER = {"client": "server", "server": "client"}


class RecordedChannel:
    """A channel number of a shared connection, from one channel.open to both closes and their close-oks."""

    def __init__(self) -> None:
        self.authors: set[bytes] = set()
        self.closed_by: set[str] = set()
        self.answered_by: set[str] = set()

    @property
    def is_over(self) -> bool:
        """Whether each close has its close-ok."""
        return bool(self.closed_by) and {_OTHER[each] for each in self.closed_by} == self.answered_by

    def take(self, sender: str, frame: Frame) -> None:
        """Check a frame: nobody sends anything behind its own close or close-ok but what answers the other's."""
        method: Any = frame.method if frame.kind == METHOD else None
        if isinstance(method, ChannelClose):
            assert sender not in self.closed_by, "closed twice"
            self.closed_by.add(sender)
        elif isinstance(method, ChannelCloseOk):
            assert sender not in self.answered_by, "close-ok twice"
            self.answered_by.add(sender)
        else:
            assert sender not in self.closed_by | self.answered_by, f"{sender} sent {method or frame.kind} when closed"
        if frame.kind == BODY and sender == "client":
            author = frame.payload.rsplit(b" ", 1)[0]
            if author != b"too":  # "too late", by each author
                self.authors.add(author)


class RecordedConnection:
    """The channels of a shared connection by number; `errors` counts those that the broker has closed with 404."""

    def __init__(self) -> None:
        self.given_again = self.errors = self.messages = 0
        self._channels: dict[int, RecordedChannel] = {}

    def take(self, sender: str, frame: Frame) -> None:
        """Check a frame on a channel."""
        number, method = frame.channel, frame.method if frame.kind == METHOD else None
        if isinstance(method, ChannelOpen):
            before = self._channels.get(number)
            assert before is None or before.is_over, f"channel {number} was given again too early"
            self.given_again += before is not None
            self._channels[number] = RecordedChannel()
            return
        channel = self._channels[number]
        channel.take(sender, frame)
        assert len(channel.authors) <= 1, f"channel {number} has messages of {channel.authors}"
        self.errors += isinstance(method, ChannelClose) and method.reply_code == 404
        self.messages += frame.kind == BODY


def checked(directory: Path) -> list[RecordedConnection]:
    """Check all shared connections in a recording, and return them."""
    shared: dict[int, RecordedConnection] = {}
    for decoded in read_decoded(directory, leg="upstream"):
        assert not isinstance(decoded, SkippedBytes), decoded
        if not isinstance(decoded, Amqp091DecodedFrames):
            continue
        for frame in decoded.frames:
            method: Any = frame.method if frame.kind == METHOD else None
            if isinstance(method, ConnectionStartOk) and method.client_properties.get("product") == "amqproxy":
                assert not method.response.endswith(b"guest"), "the password is masked"
                shared[decoded.stream] = RecordedConnection()
            if decoded.stream in shared and frame.channel:
                shared[decoded.stream].take(decoded.sender, frame)
    return list(shared.values())


BROKERS_CLOSE = "client 1: channel.open; server 1: channel.open-ok, 1: channel.close 404"
CLIENTS_CLOSE = "client 1: channel.open, 1: channel.close 200"


@pytest.mark.parametrize(
    ("transcript", "fault"),
    [
        (f"{BROKERS_CLOSE}; client 1: channel.close-ok, 1: channel.open, 1: basic.publish", ""),
        (f"{CLIENTS_CLOSE}; server 1: basic.ack, 1: channel.close-ok; client 1: channel.open", ""),
        (f"{BROKERS_CLOSE}; client 1: basic.publish, 1: channel.close-ok", ""),
        (f"{BROKERS_CLOSE}; client 1: channel.open", "too early"),
        (f"{CLIENTS_CLOSE}, 1: channel.open", "too early"),
        (f"{CLIENTS_CLOSE}; server 1: channel.close 404; client 1: channel.close-ok, 1: channel.open", "too early"),
        (f"{CLIENTS_CLOSE}; server 1: channel.close-ok; client 1: basic.publish", "when closed"),
        (f"{BROKERS_CLOSE}; client 1: channel.close-ok, 1: basic.publish", "when closed"),
        (f"{CLIENTS_CLOSE}, 1: channel.close 200", "closed twice"),
    ],
)
def test_the_check_finds_channels_that_are_used_too_early(transcript: str, fault: str) -> None:
    connection = RecordedConnection()
    with pytest.raises(AssertionError, match=fault) if fault else nullcontext():
        for part in transcript.split("; "):
            sender, _, words = part.partition(" ")
            for frame in every_frame(octets(words), 0):
                connection.take(sender, frame)


def test_the_check_finds_messages_on_foreign_channels() -> None:
    connection = RecordedConnection()
    connection.take("client", *every_frame(octets("1: channel.open"), 0))
    for body in (b"author 1 0", b"too late", b"author 1 1"):
        connection.take("client", Frame(encode_frame(BODY, 1, body)))
    with pytest.raises(AssertionError, match="messages of"):
        connection.take("client", Frame(encode_frame(BODY, 1, b"author 2 0")))


def recorded_errors(directory: Path, port: int, clients: int, errors: int) -> None:
    recording = {"directory": str(directory / "recording"), "memory": 1 << 29}
    neighbourhood = Neighbourhood(directory, port, recording)
    try:
        many_channel_errors(neighbourhood, clients, errors)
        assert neighbourhood.stats("amqproxy_records_dropped_total") == 0
        neighbourhood.fleet.terminate()
        assert neighbourhood.fleet.wait() == 0
    finally:
        neighbourhood.fleet.kill()
    found = checked(directory / "recording")
    assert sum(each.errors for each in found) == clients * errors
    assert sum(each.messages for each in found) >= 3 * clients * errors
    assert sum(each.given_again for each in found) > 0


def test_no_channel_is_given_again_before_both_close_oks(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    recorded_errors(tmp_path, rabbitmq.port, clients=8, errors=40)


@pytest.mark.soak
def test_ten_thousand_channel_errors_are_recorded(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    recorded_errors(tmp_path, rabbitmq.port, clients=64, errors=160)


def test_a_recording_that_joins_tells_clients_and_their_connection_apart(rabbitmq: RabbitMQ, tmp_path: Path) -> None:
    """Each client has a leg of its own towards the broker, and what they share has the real addresses."""
    neighbourhood = Neighbourhood(tmp_path, rabbitmq.port)
    directory = tmp_path / "recording"
    bodies = [{b"%d %d" % (client, number) for number in range(20)} for client in range(2)]
    try:
        declare(rabbitmq.port, "joined")
        with neighbourhood.opened(1) as first, neighbourhood.opened(1) as second:
            for peer in (first, second):
                peer.send(CONFIRM_SELECT)
                peer.expect(85, 11)
            with ControlClient(neighbourhood.fleet.socket) as control:
                control.ask("record-start", settings={"directory": str(directory)})
                for pair in zip(*map(sorted, bodies), strict=True):
                    for peer, body in zip((first, second), pair, strict=True):
                        peer.send(raw.message(1, "joined", body))
                        peer.expect(60, 80)
                status = control.ask("record-stop")["recording"]
        assert status["dropped"] == status["lost"] == 0
    finally:
        neighbourhood.fleet.kill()
        drained(rabbitmq.port, "joined")
    found: dict[int, set[bytes]] = {}
    for decoded in read_decoded(directory, leg="upstream"):
        assert not isinstance(decoded, SkippedBytes), decoded
        if isinstance(decoded, Amqp091DecodedFrames):
            sent = found.setdefault(decoded.stream, set())
            sent |= {frame.payload for frame in decoded.frames if frame.kind == BODY}
    assert sorted(found.values(), key=len) == [*bodies, bodies[0] | bodies[1]]
