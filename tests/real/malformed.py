"""Input that breaks AMQP 0-9-1, by name, and what a server was seen to answer."""

import struct
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from amqproxy.rabbitmq.profile import HEADER_1_0_SASL
from tests.real import raw
from tests.real.raw import Close, Peer

SILENCE = 15.0
"""Seconds after which a silent server counts as waiting for more bytes."""

LATE_CLOSE = 5.0
"""Seconds in which a close may come after an answer on another channel."""


WORKERS = 12
"""Cases asked at once: RabbitMQ waits three seconds before it closes a bad handshake."""


class Case(NamedTuple):
    name: str
    rabbitmq: str
    """What RabbitMQ 3.10 answers, as `Answer.summary`."""
    data: bytes
    after: str = "channel"
    """How far the connection has come: connected, start, tune, open or channel (channels 1 and 2 are open)."""

    @property
    def is_handshake(self) -> bool:
        """Whether the case is part of a login, after which RabbitMQ waits before it closes."""
        return self.after in ("start", "tune")


class Answer(NamedTuple):
    """What came back: `kind` is header, start, 1.0, connection.close, channel.close, closed, carries on or silence.

    A header is the answer to a protocol that is not spoken, whose bytes are in `text`.
    """

    kind: str
    code: int = 0
    text: str = ""
    channel: int = 0
    class_id: int = 0
    method_id: int = 0

    @property
    def summary(self) -> str:
        """In a word: `501` for a connection.close, `channel 406` for a channel.close, else the kind."""
        if self.kind == "channel.close":
            return f"channel {self.code}"
        return str(self.code) if self.code else self.kind

    @classmethod
    def closing(cls, close: Close) -> "Answer":
        kind = "connection.close" if close.method == raw.CONNECTION_CLOSE else "channel.close"
        return cls(kind, close.code, close.text, close.channel, close.class_id, close.method_id)


FOREIGN = [
    Case("AMQP 0-8", "start", b"AMQP\x01\x01\x08\x00", "connected"),
    Case("AMQP 0-9", "start", b"AMQP\x01\x01\x00\x09", "connected"),
    Case("AMQP 0-10", "header", b"AMQP\x01\x01\x00\x0a", "connected"),
    Case("AMQP 1.0", "header", b"AMQP\x00\x01\x00\x00", "connected"),
    Case("AMQP 1.0 SASL", "header", b"AMQP\x03\x01\x00\x00", "connected"),
    Case("AMQP 0-9-2", "header", b"AMQP\x00\x00\x09\x02", "connected"),
    Case("TLS ClientHello", "header", bytes.fromhex("16030100c8010000c40303") + bytes(196), "connected"),
    Case("HTTP GET", "header", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", "connected"),
    # PeerProperties, version 1, correlation 1, no properties: what every stream client sends first.
    Case("RabbitMQ stream", "header", bytes.fromhex("0000000c 0011 0001 00000001 00000000"), "connected"),
    Case("rubbish", "header", b"\xff" * 64, "connected"),
]
"""First bytes of other protocols."""


def _publish(*rest: bytes) -> bytes:
    return raw.publish(1, "nowhere") + b"".join(rest)


def _deliver(*rest: bytes) -> bytes:
    return raw.method(1, 60, 60, raw.shortstr("t") + bytes(9) + raw.shortstr("") * 2) + b"".join(rest)


def _table(entries: bytes, announced: int | None = None) -> bytes:
    return struct.pack(">I", len(entries) if announced is None else announced) + entries


def _deep(levels: int) -> bytes:
    """A table in a table in a table."""
    entries = b""
    for _ in range(levels):
        entries = b"\x01kF" + raw.longstr(entries)
    return raw.longstr(entries)


def _declare(table: bytes) -> bytes:
    return raw.method(1, 50, 10, b"\0\0" + raw.shortstr("") + bytes([0b100]) + table)


MALFORMED = [
    Case("frame: bad end marker", "501", raw.frame(raw.METHOD, 1, struct.pack(">HH", 60, 10) + bytes(7), end=b"\0")),
    Case("frame: bad end marker on a heartbeat", "501", raw.frame(raw.HEARTBEAT, 0, end=b"\x01")),
    Case("frame: unknown type 4", "501", raw.frame(4, 1, b"1234")),
    Case("frame: unknown type 9 on channel 0", "501", raw.frame(9, 0, b"1234")),
    Case("frame: larger than frame_max", "505", raw.frame(raw.BODY, 1, bytes(raw.FRAME_MAX))),
    Case(
        "frame: larger than frame_max by one byte",
        "carries on",
        _publish(raw.header(1, raw.FRAME_MAX - 7), raw.body(1, bytes(raw.FRAME_MAX - 7))),
    ),
    Case(
        "frame: larger than frame_max by eight bytes",
        "carries on",
        _publish(raw.header(1, raw.FRAME_MAX), raw.body(1, bytes(raw.FRAME_MAX))),
    ),
    Case(
        "frame: larger than frame_max by nine bytes",
        "501",
        _publish(raw.header(1, raw.FRAME_MAX + 1), raw.body(1, bytes(raw.FRAME_MAX + 1))),
    ),
    Case(
        "frame: exactly frame_max",
        "carries on",
        _publish(raw.header(1, raw.FRAME_MAX - 8), raw.body(1, bytes(raw.FRAME_MAX - 8))),
    ),
    Case("frame: only its first seven bytes, size 4 GiB", "501", struct.pack(">BHI", raw.METHOD, 1, 0xFFFF_FFFF)),
    Case("frame: method with an empty payload", "501", raw.frame(raw.METHOD, 1)),
    Case("frame: method with a payload of three bytes", "501", raw.frame(raw.METHOD, 1, b"\0\x3c\0")),
    Case("frame: method with an empty payload on channel 0", "501", raw.frame(raw.METHOD, 0)),
    Case("method: unknown class 99", "closed", raw.method(1, 99, 1)),
    Case("method: unknown class 99 on channel 0", "closed", raw.method(0, 99, 1)),
    Case("method: unknown method basic.99", "closed", raw.method(1, 60, 99)),
    Case("method: on a channel that is not open", "504", raw.method(7, 60, 10, bytes(7))),
    Case("method: one only a server sends (basic.qos-ok)", "503", raw.method(1, 60, 11)),
    Case(
        "method: one only a server sends (queue.declare-ok)", "503", raw.method(1, 50, 11, raw.shortstr("q") + bytes(8))
    ),
    Case(
        "method: one only a server sends (basic.deliver)",
        "carries on",
        _deliver(),
    ),
    Case(
        "method: one only a server sends (basic.deliver), with its content",
        "503",
        _deliver(raw.header(1, 1), raw.body(1, b"x")),
    ),
    Case(
        "method: one only a server sends (basic.return), with its content",
        "503",
        raw.method(1, 60, 50, b"\0\1" + raw.shortstr("") * 3) + raw.header(1, 0),
    ),
    Case(
        "method: one only a server sends (basic.deliver), then another",
        "505",
        _deliver(raw.method(1, 60, 10, bytes(7))),
    ),
    Case("method: channel method on channel 0 (basic.qos)", "504", raw.method(0, 60, 10, bytes(7))),
    Case("method: channel.open on channel 0", "504", raw.channel_open(0)),
    Case(
        "method: connection method on channel 5, which is not open",
        "504",
        raw.connection_close().replace(b"\x01\0\0", b"\x01\0\5", 1),
    ),
    Case(
        "method: connection method on channel 1, which is open",
        "503",
        raw.connection_close().replace(b"\x01\0\0", b"\x01\0\1", 1),
    ),
    Case("method: channel.open twice", "504", raw.channel_open(1)),
    Case("method: channel.open above channel_max", "carries on", raw.channel_open(2048)),
    Case("method: basic.qos above channel_max", "504", raw.method(3000, 60, 10, bytes(7))),
    Case("method: channel.close-ok without a close", "503", raw.method(1, 20, 41)),
    Case("method: channel.open-ok from the client", "503", raw.method(1, 20, 11, raw.longstr(b""))),
    Case("method: channel.flow-ok without a flow", "503", raw.method(1, 20, 21, b"\x01")),
    Case("connection: open twice", "504", raw.connection_open()),
    Case("connection: start-ok after open", "504", raw.start_ok()),
    Case("connection: tune-ok twice", "504", raw.tune_ok()),
    Case("connection: secure-ok without a secure", "504", raw.method(0, 10, 21, raw.longstr(b""))),
    Case(
        "connection: start from the client",
        "504",
        raw.method(0, 10, 10, b"\0\x09" + raw.longstr(b"") + raw.longstr(b"PLAIN") + raw.longstr(b"en_US")),
    ),
    Case("connection: close-ok without a close", "504", raw.method(0, 10, 51)),
    Case("connection: blocked from the client", "504", raw.method(0, 10, 60, raw.shortstr("me"))),
    Case("handshake: start-ok twice", "closed", raw.start_ok(), "tune"),
    Case("handshake: open before tune-ok", "closed", raw.connection_open(), "tune"),
    Case("handshake: open before start-ok", "closed", raw.connection_open(), "start"),
    Case("handshake: channel.open before open", "closed", raw.channel_open(1), "tune"),
    Case("handshake: channel.open before start-ok", "closed", raw.channel_open(1), "start"),
    Case("handshake: protocol header twice", "closed", raw.PROTOCOL_HEADER, "start"),
    Case("handshake: heartbeat before start-ok", "closed", raw.frame(raw.HEARTBEAT, 0), "start"),
    Case("handshake: body frame before start-ok", "closed", raw.body(1, b"x"), "start"),
    Case("handshake: unknown frame type before start-ok", "closed", raw.frame(4, 0, b"x"), "start"),
    Case("handshake: bad frame end in start-ok", "closed", raw.start_ok()[:-1] + b"\0", "start"),
    Case(
        "handshake: start-ok of 5000 bytes",
        "closed",
        raw.start_ok(properties=raw.shortstr("x") + b"S" + raw.longstr(bytes(4900))),
        "start",
    ),
    Case(
        "handshake: start-ok of 200000 bytes",
        "closed",
        raw.start_ok(properties=raw.shortstr("x") + b"S" + raw.longstr(bytes(200000))),
        "start",
    ),
    Case(
        "handshake: start-ok with a table that overruns",
        "closed",
        raw.method(0, 10, 11, _table(b"", 1000) + raw.shortstr("PLAIN")),
        "start",
    ),
    Case(
        "handshake: start-ok with an unknown mechanism",
        "closed",
        raw.method(0, 10, 11, raw.longstr(b"") + raw.shortstr("NONE") + raw.longstr(b"") + raw.shortstr("en_US")),
        "start",
    ),
    Case("handshake: wrong password", "403", raw.start_ok(password="wrong"), "start"),
    Case(
        "handshake: wrong password, no capability announced",
        "closed",
        raw.start_ok(password="wrong", properties=b""),
        "start",
    ),
    Case(
        "handshake: tune-ok with a larger frame_max",
        "closed",
        raw.tune_ok(frame_max=raw.FRAME_MAX * 2) + raw.connection_open(),
        "tune",
    ),
    Case("handshake: tune-ok with frame_max 0", "closed", raw.tune_ok(frame_max=0) + raw.connection_open(), "tune"),
    Case("handshake: tune-ok with frame_max 100", "closed", raw.tune_ok(frame_max=100) + raw.connection_open(), "tune"),
    Case(
        "handshake: tune-ok with a larger channel_max",
        "closed",
        raw.tune_ok(channel_max=4000) + raw.connection_open(),
        "tune",
    ),
    Case("handshake: tune-ok with channel_max 0", "closed", raw.tune_ok(channel_max=0) + raw.connection_open(), "tune"),
    Case("handshake: unknown vhost", "530", raw.tune_ok() + raw.connection_open("nowhere"), "tune"),
    Case("content: header with no method", "505", raw.header(1, 0)),
    Case("content: body with no method", "505", raw.body(1, b"x")),
    Case("content: body with no header", "505", _publish(raw.body(1, b"x"))),
    Case("content: header on a class other than basic", "505", _publish(raw.header(1, 0, class_id=50))),
    Case("content: header of an unknown class", "505", _publish(raw.header(1, 0, class_id=99))),
    Case("content: header twice", "505", _publish(raw.header(1, 10), raw.header(1, 10))),
    Case("content: body larger than announced", "carries on", _publish(raw.header(1, 3), raw.body(1, b"12345"))),
    Case(
        "content: body larger than announced, then a method",
        "505",
        _publish(raw.header(1, 3), raw.body(1, b"12345"), raw.method(1, 60, 10, bytes(7))),
    ),
    Case(
        "content: body larger than announced, then more of it",
        "carries on",
        _publish(raw.header(1, 3), raw.body(1, b"12"), raw.body(1, b"345"), raw.body(1, b""), raw.body(1, bytes(1000))),
    ),
    Case(
        "content: another body after the announced ones",
        "505",
        _publish(raw.header(1, 3), raw.body(1, b"123"), raw.body(1, b"4")),
    ),
    Case(
        "content: body frame with an empty payload before the rest",
        "carries on",
        _publish(raw.header(1, 3), raw.body(1, b""), raw.body(1, b"123")),
    ),
    Case("content: body frame for a body of size 0", "505", _publish(raw.header(1, 0), raw.body(1, b""))),
    Case("content: method instead of the header", "505", _publish(raw.method(1, 60, 10, bytes(7)))),
    Case("content: method instead of the body", "505", _publish(raw.header(1, 3), raw.method(1, 60, 10, bytes(7)))),
    Case("content: publish instead of the body", "505", _publish(raw.header(1, 3), raw.publish(1, "x"))),
    Case(
        "content: channel.close instead of the header",
        "505",
        _publish(raw.method(1, 20, 40, b"\0\xc8" + raw.shortstr("") + bytes(4))),
    ),
    Case(
        "content: connection.close instead of the body",
        "carries on",
        _publish(raw.header(1, 3), raw.connection_close()),
    ),
    Case(
        "content: heartbeat between header and body",
        "carries on",
        _publish(raw.header(1, 1), raw.frame(raw.HEARTBEAT, 0), raw.body(1, b"x")),
    ),
    Case(
        "content: another channel's method between header and body",
        "carries on",
        _publish(raw.header(1, 1), raw.method(2, 60, 10, bytes(7)), raw.body(1, b"x")),
    ),
    Case("content: header on channel 0", "505", raw.header(0, 0)),
    Case("content: body on channel 0", "505", raw.body(0, b"x")),
    Case("content: header on a channel that is not open", "505", raw.header(7, 0)),
    Case("content: body on a channel that is not open", "505", raw.body(7, b"x")),
    Case("content: header with weight 1", "505", _publish(raw.frame(raw.HEADER, 1, struct.pack(">HHQH", 60, 1, 0, 0)))),
    Case("content: header of 11 bytes", "501", _publish(raw.frame(raw.HEADER, 1, bytes(11)))),
    Case(
        "content: header with bit 0 of the flags set and no more flags",
        "carries on",
        _publish(raw.header(1, 0, flags=0b1)),
    ),
    Case(
        "content: header with bit 0 of the flags set and a second word 0",
        "541",
        _publish(raw.header(1, 0, flags=0b1, properties=b"\0\0")),
    ),
    Case(
        "content: header with a second word of unknown flags",
        "541",
        _publish(raw.header(1, 0, flags=0b1, properties=b"\x80\0")),
    ),
    Case("content: header with the unused flag bit 1", "carries on", _publish(raw.header(1, 0, flags=0b10))),
    Case(
        "content: header with the unused flag bits 1 and a property",
        "carries on",
        _publish(raw.header(1, 0, flags=0x8002, properties=raw.shortstr("a"))),
    ),
    Case(
        "content: header with cluster_id",
        "carries on",
        _publish(raw.header(1, 0, flags=0b100, properties=raw.shortstr("c"))),
    ),
    Case("content: header with properties truncated", "541", _publish(raw.header(1, 0, flags=0x8000))),
    Case("content: header with bytes after the properties", "541", _publish(raw.header(1, 0, properties=b"extra"))),
    Case(
        "content: header with malformed UTF-8 in content_type",
        "carries on",
        _publish(raw.header(1, 0, flags=0x8000, properties=raw.shortstr(b"\xff\xfe"))),
    ),
    Case(
        "content: header with a headers table that overruns",
        "541",
        _publish(raw.header(1, 0, flags=0x2000, properties=_table(b"", 50))),
    ),
    Case(
        "content: header with an unknown table type",
        "541",
        _publish(raw.header(1, 0, flags=0x2000, properties=_table(b"\x01kz"))),
    ),
    Case(
        "content: header with delivery_mode 7",
        "channel 406",
        _publish(raw.header(1, 0, flags=0x1000, properties=b"\7")),
    ),
    Case("content: body size of 2**63", "carries on", _publish(raw.header(1, 2**63))),
    Case("content: body size of 1 GiB", "carries on", _publish(raw.header(1, 2**30))),
    Case("heartbeat: on channel 1", "505", raw.frame(raw.HEARTBEAT, 1)),
    Case("heartbeat: on channel 7, which is not open", "505", raw.frame(raw.HEARTBEAT, 7)),
    Case("heartbeat: with a payload", "501", raw.frame(raw.HEARTBEAT, 0, b"boo")),
    Case(
        "arguments: malformed UTF-8 in a short string",
        "501",
        raw.method(1, 50, 10, b"\0\0" + raw.shortstr(b"\xff\xfe") + bytes(5)),
    ),
    Case(
        "arguments: malformed UTF-8 in an exchange name",
        "501",
        raw.method(1, 40, 10, b"\0\0" + raw.shortstr(b"\xc3\x28") + raw.shortstr("direct") + bytes(5)),
    ),
    Case(
        "arguments: malformed UTF-8 in a routing key",
        "carries on",
        raw.method(1, 60, 40, b"\0\0\0" + raw.shortstr(b"\xff") + b"\0") + raw.header(1, 0),
    ),
    Case("arguments: truncated", "501", raw.method(1, 50, 10, b"\0\0\5ab")),
    Case("arguments: absent", "501", raw.method(1, 50, 10)),
    Case("arguments: absent from basic.qos", "501", raw.method(1, 60, 10)),
    Case("arguments: bytes after the last", "501", raw.method(1, 60, 10, bytes(7) + b"extra")),
    Case("arguments: bytes after the last, in a method with none", "501", raw.method(1, 90, 10, b"extra")),
    Case("arguments: bytes after a table", "501", _declare(_table(b"") + b"extra")),
    Case("arguments: unused bits set", "carries on", raw.method(1, 60, 10, bytes(6) + b"\xfe")),
    Case(
        "arguments: reserved fields set",
        "carries on",
        raw.method(1, 50, 10, b"\xff\xff" + raw.shortstr("reserved") + bytes([0b100]) + bytes(4)),
    ),
    Case("arguments: table overruns its frame", "501", _declare(_table(b"", 1000))),
    Case(
        "arguments: table shorter than its entry", "closed", _declare(_table(b"\x01kS" + struct.pack(">I", 100) + b"x"))
    ),
    Case("arguments: table with half an entry", "closed", _declare(_table(b"\x05ab"))),
    Case("arguments: table of an unknown type z", "closed", _declare(_table(b"\x01kz\0\0\0\0"))),
    Case(
        "arguments: table with a malformed UTF-8 key", "carries on", _declare(_table(raw.shortstr(b"\xff\xfe") + b"V"))
    ),
    Case(
        "arguments: table with malformed UTF-8 in a long string",
        "carries on",
        _declare(_table(b"\x01kS" + raw.longstr(b"\xff\xfe"))),
    ),
    Case("arguments: table with a duplicate key", "carries on", _declare(_table(b"\x01kV\x01kV"))),
    Case("arguments: table with an empty key", "carries on", _declare(_table(b"\x00V"))),
    Case("arguments: table with a key of 200 bytes", "carries on", _declare(_table(raw.shortstr("k" * 200) + b"V"))),
    Case("arguments: table with boolean 7", "carries on", _declare(_table(b"\x01kt\7"))),
    Case(
        "arguments: table with an array that overruns",
        "closed",
        _declare(_table(b"\x01kA" + struct.pack(">I", 50) + b"V")),
    ),
    Case("arguments: table nested 30 deep", "carries on", _declare(_deep(30))),
    Case("arguments: table nested 200 deep", "carries on", _declare(_deep(200))),
    Case("arguments: table nested 5000 deep", "carries on", _declare(_deep(5000))),
]
"""Frames that break the specification, or look as though they might."""


BETTER = {
    # RabbitMQ's reader crashes, and the client is left to guess.
    "method: unknown class 99": "503",
    "method: unknown class 99 on channel 0": "503",
    "method: unknown method basic.99": "503",
    "arguments: table shorter than its entry": "501",
    "arguments: table with half an entry": "501",
    "arguments: table of an unknown type z": "502",
    "arguments: table with an array that overruns": "501",
}
"""Where the proxy answers otherwise than RabbitMQ, and means to."""


_FROM_4_0 = {"AMQP 0-8": "header", "AMQP 1.0 SASL": "1.0", "content: header with delivery_mode 7": "carries on"}
LATER: dict[str, dict[str, str]] = {
    "3.10": {},
    "4.0": _FROM_4_0,
    "4.3": {
        **_FROM_4_0,
        "handshake: start-ok of 5000 bytes": "carries on",
        "content: body larger than announced": "501",
        "content: body larger than announced, then a method": "501",
        "content: body larger than announced, then more of it": "501",
        "content: body size of 2**63": "501",
        "content: body size of 1 GiB": "501",
    },
}
"""Answers of later versions that differ from those of 3.10."""


def advance(peer: Peer, after: str, properties: bytes | None = None) -> None:
    """Brings a new connection to the state a case starts from; `properties` are the client's."""
    if after == "connected":
        return
    peer.send(raw.PROTOCOL_HEADER)
    peer.expect(10, 10)
    if after == "start":
        return
    peer.send(raw.start_ok(properties=properties))
    peer.expect(10, 30)
    if after == "tune":
        return
    peer.send(raw.tune_ok(), raw.connection_open())
    peer.expect(10, 41)
    if after == "channel":
        for channel in (1, 2):
            peer.send(raw.channel_open(channel))
            peer.expect(20, 11)


Answers = dict[str, Future[Answer]]
"""Answers to cases, by name."""


def asked(port: int, pool: ThreadPoolExecutor, cases: Iterable[Case]) -> Answers:
    """Ask all cases at once, those first that wait for the server's three seconds."""
    return {case.name: pool.submit(ask, port, case) for case in sorted(cases, key=lambda case: not case.is_handshake)}


def ask(port: int, case: Case, properties: bytes | None = None) -> Answer:
    """What the server at `port` answers to a case, from a client of these properties."""
    with Peer.connect(port) as peer:
        advance(peer, case.after, properties)
        peer.stream.settimeout(SILENCE)
        try:
            peer.send(case.data)
            if case.after == "channel":
                # basic.qos on the other channel is answered only where the connection has survived.
                peer.send(raw.method(2, 60, 10, bytes(7)))
        except OSError:
            pass
        if case.after == "connected":
            return _header(peer)
        return _answer(peer, case)


def _header(peer: Peer) -> Answer:
    try:
        data = peer.receive(8)
        if data[:4] == raw.PROTOCOL_HEADER[:4] and not peer.receive(1):
            return Answer("header", text=data.hex(" "))
    except TimeoutError:
        return Answer("silence")
    if not data:
        return Answer("closed")
    if data == HEADER_1_0_SASL:
        return Answer("1.0")
    return Answer("start" if data[:3] == b"\x01\0\0" else "other", text=data.hex(" "))


def _answer(peer: Peer, case: Case) -> Answer:
    found = None
    silence = Answer("silence")
    try:
        for each in peer.frames():
            if each.close and found is None:
                found = Answer.closing(each.close)
                if each.method == raw.CONNECTION_CLOSE:
                    return found
            elif each.channel == 2 and each.method == (60, 11):
                if found or case.rabbitmq in ("", "carries on"):
                    return found or Answer("carries on")
                # A starved RabbitMQ may answer on this channel before it closes the other one, or the connection.
                silence = Answer("carries on")
                peer.stream.settimeout(LATE_CLOSE)
            elif each.method == (10, 51):
                return found or Answer("carries on", text="close-ok")
            elif case.after == "tune" and each.method in ((10, 41),):
                return Answer("carries on", text="open-ok")
            elif case.after == "start" and each.method == (10, 30):
                return Answer("carries on", text="tune")
    except TimeoutError:
        return found or silence
    except (ValueError, OSError) as error:
        return found or Answer("closed", text=str(error))
    return found or Answer("closed")
