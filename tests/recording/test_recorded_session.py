"""Recordings are read back as the traffic that the proxy showed."""

from __future__ import annotations

import io
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pika
import pika.exceptions
import pytest

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import Peer
from amqproxy.capture.decode import read_decoded
from amqproxy.capture.observed import observed
from amqproxy.recording.entry_queue import EntryQueue
from amqproxy.recording.recorder_tap import RecorderTap
from amqproxy.recording.recording_encoder import RecordingEncoder
from amqproxy.taps.frame_tap import FrameTap
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.observer import ObserverSettings
from amqproxy.taps.record import Record
from amqproxy.taps.record_queue import RecordQueue
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from amqproxy.testing import LocalBroker, LocalProxy, in_memory_recorder
from tests.capture.records import read_records
from tests.real import raw

RULES = """
[[rules]]
name = "no-secrets-here"
action = "refuse"
match = {method = "basic.publish", exchange = "forbidden"}
[[rules]]
name = "swallow"
action = "refuse"
match = {method = "basic.publish", routing_key = "drop.*"}
with = "drop"
[[rules]]
name = "sent back"
action = "refuse"
match = {method = "basic.publish", routing_key = "back"}
with = "return"
[[rules]]
name = "renamed"
action = "rewrite"
match.method = "basic.publish"
routing_key = {from = "old", to = "q"}
[[rules]]
name = "the \\"large\\" ones"
action = "tag"
match = {method = "basic.publish", routing_key = "q"}
tags = ["seen", "by:us"]
[[rules]]
name = "cards"
action = "redact"
match.method = ["basic.publish", "basic.deliver"]
text = ['\\b\\d{16}\\b']
[[rules]]
name = "watched"
action = "refuse"
mode = "shadow"
match.method = "basic.ack"
"""


class Both:
    """Shows what passes to a tap that makes records and to one that makes entries, as of the same moment."""

    may_miss_frames = False
    joins = 0

    def __init__(self, metrics: Metrics) -> None:
        self.records = RecordQueue(100_000, 1 << 30, metrics, lambda: None)
        self.entries = EntryQueue(1 << 30)
        self._now = 0
        frame_tap = FrameTap(self.records, clock=lambda: self._now)
        recorder_tap = RecorderTap(self.entries, lambda *_: None, lambda count: None, clock=lambda: self._now)
        self._taps = (frame_tap, recorder_tap)

    def saw_protocol_header(self, session: TappedSession, data: bytes) -> None:
        self._now = time.time_ns()
        for tap in self._taps:
            tap.saw_protocol_header(session, data)

    def saw_frames(self, session: TappedSession, sender: Peer, frames: Sequence[Frame], note: Note = NOTHING) -> None:
        self._now = time.time_ns()
        for tap in self._taps:
            tap.saw_frames(session, sender, frames, note)

    def saw_gap(self, session: TappedSession, frames: int) -> None:
        raise AssertionError("nothing is to be missed here")

    def saw_violation(self, session: TappedSession, sender: Peer, error: ProtocolError) -> None:
        self._now = time.time_ns()
        for tap in self._taps:
            tap.saw_violation(session, sender, error)

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        raise AssertionError("the beginning was seen")

    def saw_end(self, session: TappedSession, reason: str) -> None:
        self._now = time.time_ns()
        for tap in self._taps:
            tap.saw_end(session, reason)


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[Both]:
    """Traffic that the proxies of a test have shown."""
    made: list[Both] = []

    class Recorder(in_memory_recorder.InMemoryRecorder):
        def __init__(self, metrics: Metrics) -> None:
            super().__init__(metrics)
            made.append(Both(metrics))
            self.taps = (*self.taps, made[-1])

    monkeypatch.setattr("amqproxy.testing.local_proxy.InMemoryRecorder", Recorder)
    return made


def written(entries: EntryQueue) -> bytes:
    encoder = RecordingEncoder()
    pieces = [encoder.begin(time.time_ns())]
    for entry in entries.take(1 << 30):
        pieces += map(bytes, encoder.encode(entry))
    return b"".join(pieces)


def facts(records: list[Record], leg: str) -> list[dict[str, Any]]:
    """Return the traffic of a leg; a file lacks a session's number and the addresses of its other leg.

    The proxy sends the client's protocol header on later, if it does; what a peer did wrong went no further.
    """
    found = [msgspec.json.decode(record.to_json()) for record in records if record.leg in (None, leg)]
    order = list(dict.fromkeys(each["connection"] for each in found))  # one may still end when the next begins
    found.sort(key=lambda each: order.index(each["connection"]))
    left_out = ("stream",)
    if leg == "upstream":
        left_out = ("stream", "connection")
        found = [each for each in found if each["type"] not in ("protocol-header", "error")]
    return [{name: value for name, value in each.items() if name not in left_out} for each in found]


def use(url: str) -> None:
    """A client that does what rules are about, and something wrong."""
    with pika.BlockingConnection(pika.URLParameters(url)) as connection:
        channel = connection.channel()
        channel.queue_declare("q")
        channel.confirm_delivery()
        for key in ("old", "q", "drop.it", "nowhere"):
            channel.basic_publish("", key, b"x" * 100)
        channel.basic_publish("", "q", b"card 4111111111111111 of Ann")
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "back", b"x", mandatory=True)
        channel.basic_publish("", "q", b"y" * 300_000, pika.BasicProperties(headers={"a": [1, {"b": None}]}))
        for method, _, _ in channel.consume("q", inactivity_timeout=5):
            channel.basic_ack(method.delivery_tag)
            if method.delivery_tag == 3:
                break
        channel.cancel()
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            channel.basic_publish("forbidden", "k", b"z")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("none", passive=True)


def misuse(port: int) -> None:
    """Clients that break the protocol, that speak another, and that say nothing or not enough."""
    with raw.Peer.opened(port, 1) as peer:
        peer.send(raw.publish(1, "q") + raw.header(1, 3) + raw.header(1, 3) + b"rubbish")
        peer.closed()
    with raw.Peer.opened(port, 1) as peer:
        peer.send(raw.frame(8, 0) + raw.frame(1, 1, b"\0\x3c\0\x28", end=b"!") + b"rubbish")
        peer.closed()
    with raw.Peer.connect(port) as peer:
        peer.send(b"GET / HTTP/1.1\r\n\r\n")
        peer.receive(1000)
    with raw.Peer.connect(port) as peer:
        peer.send(raw.PROTOCOL_HEADER)
        peer.expect(10, 10)
        peer.send(raw.start_ok(password="wrong-secret"))
        peer.closed()
    raw.Peer.opened(port, 1).reset()


_CLOSERS = {
    "client": {(403, "proxy"), (404, "server"), (505, "proxy"), (501, "proxy")},
    "upstream": {(320, "proxy"), (404, "server")},
}
"""Reply codes on each leg, and who closed: the proxy where a rule refused, or a client broke the protocol."""


@pytest.mark.parametrize("leg", ["client", "upstream"])
def test_a_recording_decodes_to_the_records_that_were_shown(shown: list[Both], leg: str) -> None:
    with LocalBroker() as broker:
        with LocalProxy(broker.address) as proxy, proxy.rules(RULES):
            use(proxy.url)
            misuse(proxy.port)
        (both,) = shown
    live = [record for record in both.records.waiting_records() if isinstance(record, Record)]
    assert len({record.verdict for record in live}) > 3
    data = written(both.entries)
    assert b"wrong-secret" not in data
    assert b"4111111111111111" not in data
    found, wanted = facts(list(read_records(io.BytesIO(data), leg=leg)), leg), facts(live, leg)
    assert found == wanted
    reports = observed(read_decoded(io.BytesIO(data), leg=leg), ObserverSettings())
    closed = [each for each in reports if isinstance(each, MessageRecord) and each.outcome == "closed" and each.code]
    closers = {(each.code, each.sender) for each in closed if each.code != 200}
    assert closers >= _CLOSERS[leg]
