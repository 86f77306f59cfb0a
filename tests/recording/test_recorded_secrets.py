"""No secret of a client is in a recording, however it logs in, or fails to."""

from __future__ import annotations

import base64
import socket
import struct
from contextlib import suppress
from pathlib import Path

from amqproxy.testing import LocalBroker, LocalProxy
from tests.real import raw

SECRET = b"hunter2-SECRET"
PLAIN = b"\0guest\0" + SECRET
AMQPLAIN = raw.shortstr("LOGIN") + b"S" + raw.longstr(b"guest") + raw.shortstr("PASSWORD") + b"S" + raw.longstr(SECRET)


def start_ok(mechanism: str, response: bytes, *, channel: int = 0, more: bytes = b"") -> bytes:
    arguments = raw.longstr(b"") + raw.shortstr(mechanism) + raw.longstr(response) + raw.shortstr("en_US")
    return raw.method(channel, 10, 11, arguments + more)


def update_secret(*, channel: int = 0) -> bytes:
    return raw.method(channel, 10, 70, raw.longstr(SECRET) + raw.shortstr("rotated"))


def sized(frame: bytes, size: int) -> bytes:
    """A frame that says that it has another size."""
    return frame[:3] + struct.pack(">I", size) + frame[7:]


LOGIN = start_ok("PLAIN", PLAIN)
OPENED = raw.start_ok() + raw.tune_ok() + raw.connection_open()
LOGINS = {
    "PLAIN": LOGIN,
    "AMQPLAIN": start_ok("AMQPLAIN", AMQPLAIN),
    "damaged AMQPLAIN": start_ok("AMQPLAIN", AMQPLAIN + b"\5"),
    "EXTERNAL": start_ok("EXTERNAL", SECRET),
    "a token": start_ok("XOAUTH2", SECRET),
    "PLAIN with nothing but the password": start_ok("PLAIN", b"\0" + SECRET),
    "another channel": start_ok("PLAIN", PLAIN, channel=1),
    "more behind it": start_ok("PLAIN", PLAIN, more=SECRET),
    "a wrong end": LOGIN[:-1] + b"!",
    "cut": LOGIN[:-8],
    "too long a size": sized(LOGIN, 5000),
    "too short a size": sized(LOGIN, 20),
    "a huge size": sized(LOGIN, 500_000),
    "larger than a frame may be": start_ok("PLAIN", b"\0guest\0" + SECRET * 20_000),
    "another kind of frame": b"\3" + LOGIN[1:],
    "no kind of frame": b"\x09" + LOGIN[1:],
    "twice": LOGIN * 2,
    "no such method": raw.method(0, 10, 12, raw.longstr(SECRET)),
    "no such class": raw.method(0, 11, 11, raw.longstr(SECRET)),
    "secure-ok": raw.method(0, 10, 21, raw.longstr(SECRET)),
    "another protocol": b"PASS " + SECRET + b"\r\n",
    "JSON": b'{"user": "guest", "password": "' + SECRET + b'"}',
    "update-secret": OPENED + update_secret(),
    "update-secret with a wrong end": OPENED + update_secret()[:-1] + b"!",
    "update-secret on a channel": OPENED + update_secret(channel=1),
    "update-secret, cut": OPENED + update_secret()[:-12],
}
OTHERS = {
    "without a protocol header": LOGIN,
    "AMQP 1.0": b"AMQP\3\1\0\0" + struct.pack(">IBBH", 8 + len(PLAIN), 2, 1, 0) + PLAIN,
    "HTTP": b"GET / HTTP/1.1\r\nAuthorization: Basic " + base64.b64encode(b"guest:" + SECRET) + b"\r\n\r\n",
    "MQTT": b"\x10\x2a\0\4MQTT\4\xc2\0\x3c\0\2id\0\5guest\0\x0e" + SECRET,
    "a second protocol header": raw.PROTOCOL_HEADER * 2 + LOGIN,
}


def finish(peer: raw.Peer) -> None:
    """Send nothing more, and wait for the end."""
    with suppress(OSError):
        peer.stream.shutdown(socket.SHUT_WR)
    peer.receive(1_000_000)


def log_in(port: int, data: bytes, *, pieces: int = 0) -> None:
    """Send it once the server has started, and read until it closes."""
    with raw.Peer.connect(port) as peer:
        peer.send(raw.PROTOCOL_HEADER)
        peer.expect(10, 10)
        for start in range(0, len(data), pieces or len(data)):
            with suppress(OSError):  # it may have closed by now
                peer.send(data[start : start + (pieces or len(data))])
        finish(peer)


def speak(port: int, data: bytes) -> None:
    with raw.Peer.connect(port) as peer:
        with suppress(OSError):
            peer.send(data)
        finish(peer)


def test_no_secret_is_in_a_recording(tmp_path: Path) -> None:
    found = {}
    with LocalBroker() as broker:
        for name, data in (*LOGINS.items(), *OTHERS.items(), ("in pieces", LOGIN)):
            directory = tmp_path / name
            with LocalProxy(broker.address, record=directory) as proxy:
                if name in OTHERS:
                    speak(proxy.port, data)
                else:
                    log_in(proxy.port, data, pieces=5 if name == "in pieces" else 0)
            found[name] = b"".join(file.read_bytes() for file in directory.iterdir())
    assert all(found.values())
    assert [name for name, data in found.items() if SECRET in data or base64.b64encode(SECRET)[:12] in data] == []
    assert b"\0guest\0" + b"*" * len(SECRET) in found["PLAIN"]
    assert b"PASS hu****" in found["another protocol"]
