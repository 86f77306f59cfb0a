"""Transcripts in short words, several on a line, each a frame with its usual arguments.

header                  the protocol header
connection.start        a method, its arguments the usual ones
connection.close 320    a close, with its reply code
1: basic.publish        a method on channel 1
1: header 5             a content header that announces 5 bytes
1: body 5               a body frame of 5 bytes
heartbeat
"""

from typing import Any

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, OVERHEAD, Frame, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_NAME
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import HEADER as PROTOCOL_HEADER

USUAL: dict[str, dict[str, Any]] = {
    "connection.start": {"mechanisms": b"PLAIN", "locales": b"en_US"},
    "connection.start-ok": {"mechanism": "PLAIN", "response": b"\0guest\0guest", "locale": "en_US"},
    "connection.tune": {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 60},
    "connection.tune-ok": {"channel_max": 2047, "frame_max": 131_072, "heartbeat": 60},
    "connection.open": {"virtual_host": "/"},
    "basic.publish": {"routing_key": "key"},
    "basic.deliver": {"consumer_tag": "tag", "delivery_tag": 1},
    "basic.get-ok": {"delivery_tag": 1},
    "basic.return": {"reply_code": 312, "reply_text": "NO_ROUTE"},
    "basic.ack": {"delivery_tag": 1},
    "basic.consume": {"queue": "queue", "consumer_tag": "tag"},
    "basic.consume-ok": {"consumer_tag": "tag"},
    "queue.declare": {"queue": "queue"},
    "queue.declare-ok": {"queue": "queue"},
}


def octets(words: str) -> bytes:
    """The bytes of one or more words, with commas between them."""
    return b"".join(_octets(word.strip()) for word in words.split(","))


def _octets(word: str) -> bytes:
    if word == "header":
        return PROTOCOL_HEADER
    if word == "heartbeat":
        return encode_frame(HEARTBEAT, 0, b"")
    channel, _, rest = word.rpartition(": ")
    name, _, number = rest.partition(" ")
    if name == "header":
        return encode_frame(HEADER, int(channel), ContentHeader(int(number)).encode())
    if name == "body":
        return encode_frame(BODY, int(channel), bytes(int(number)))
    arguments = dict(USUAL.get(name, {}))
    if number:
        arguments["reply_code"] = int(number)
    return method(name, int(channel or 0), **arguments)


def method(name: str, channel: int = 0, **arguments: Any) -> bytes:
    """A method frame."""
    return encode_method(channel, BY_NAME[name](**arguments))


def words(data: bytes) -> str:
    """These bytes in words; where they end within a frame, how many bytes of it there are."""
    said = []
    while data:
        if data.startswith(PROTOCOL_HEADER):
            raw, word = PROTOCOL_HEADER, "header"
        elif len(data) < OVERHEAD or len(data) < (size := int.from_bytes(data[3:7]) + OVERHEAD):
            raw, word = data, f"{len(data)} bytes of a frame"
        else:
            raw = data[:size]
            word = _word(Frame(raw))
        said.append(word)
        data = data[len(raw) :]
    return ", ".join(said)


def _word(frame: Frame) -> str:
    channel = f"{frame.channel}: " if frame.channel else ""
    if frame.kind == HEARTBEAT:
        return "heartbeat"
    if frame.kind == HEADER:
        return f"{channel}header {frame.body_size}"
    if frame.kind == BODY:
        return f"{channel}body {frame.size}"
    assert frame.kind == METHOD
    name = frame.method.name
    return f"{channel}{name} {frame.method.reply_code}" if name.endswith(".close") else f"{channel}{name}"
