"""Clients that publish numbered messages with confirms, and notice whatever does not belong to them."""

from __future__ import annotations

import contextlib
import struct
import threading
import time

from tests.real import raw
from tests.real.raw import Peer

CONFIRM_SELECT = raw.method(1, 85, 10, b"\0")


class Publisher(threading.Thread):
    """A client that publishes to `queue` until it `is_over`, `window` messages ahead of their confirms.

    `confirmed` counts those that the broker has confirmed, in `seconds`; `faults` is what should not have happened.
    """

    def __init__(self, port: int, queue: str, name: str, window: int = 1, pause: float = 0.0) -> None:
        super().__init__(daemon=True)
        self._port, self._queue, self._window, self._pause = port, queue, window, pause
        self.name = name
        self.published = self.confirmed = 0
        self.seconds: list[float] = []
        self.faults: list[str] = []
        self.is_over = threading.Event()

    def run(self) -> None:
        try:
            with Peer.opened(self._port, 1, properties=raw.product(self.name)) as peer:
                peer.send(CONFIRM_SELECT)
                peer.expect(85, 11)
                while not self.is_over.wait(self._pause):
                    self._publish(peer)
                peer.send(raw.connection_close())
                peer.expect(10, 51)
        except (OSError, AssertionError, ValueError) as error:
            self.faults.append(f"{self.name}: {error!r}")

    def _publish(self, peer: Peer) -> None:
        began = time.perf_counter()
        last = self.published + self._window
        peer.send(
            *(raw.message(1, self._queue, f"{self.name} {each}".encode()) for each in range(self.published, last))
        )
        self.published = last
        while self.confirmed < last:
            payload = peer.expect(60, 80).payload
            tag, multiple = struct.unpack_from(">QB", payload, 4)
            if not self.confirmed < tag <= last or (tag != self.confirmed + 1 and not multiple):
                raise raw.Unexpected(f"confirm {tag} (multiple {multiple}) after {self.confirmed} of {last}")
            self.confirmed = tag
        self.seconds.append(time.perf_counter() - began)


def declare(port: int, *queues: str) -> None:
    """Declare durable queues at a broker."""
    with Peer.opened(port, 1) as peer:
        for queue in queues:
            peer.send(raw.method(1, 50, 10, b"\0\0" + raw.shortstr(queue) + b"\2" + raw.longstr(b"")))
            peer.expect(50, 11)
        peer.send(raw.connection_close())
        peer.expect(10, 51)


def drained(port: int, queue: str) -> list[bytes]:
    """Take all messages of a queue, in order; nobody else consumes from it or publishes to it any more."""
    found: list[bytes] = []
    with Peer.opened(port, 1) as peer:
        peer.send(raw.method(1, 50, 10, b"\0\0" + raw.shortstr(queue) + b"\1" + raw.longstr(b"")))  # passive
        payload = peer.expect(50, 11).payload
        (count,) = struct.unpack_from(">I", payload, 5 + payload[4])
        if not count:
            return []
        peer.send(raw.consume(1, queue))
        body = b""
        size = -1
        for frame in peer.frames():
            if frame.kind == raw.HEADER:
                (size,) = struct.unpack_from(">Q", frame.payload, 4)
                body = b""
            elif frame.kind == raw.BODY:
                body += frame.payload
            if size == len(body) and frame.kind != raw.METHOD:
                found.append(body)
                size = -1
            if len(found) == count:
                break
        with contextlib.suppress(OSError):
            peer.send(raw.connection_close())
            while (frame_read := peer.read()) is not None and frame_read.method != (10, 51):
                pass
    return found
