"""A hundred clients that publish, consume and settle, and log what became of their messages, as a process."""

from __future__ import annotations

import argparse
import json
import selectors
import struct
import time
from collections import Counter
from pathlib import Path

from tests.real import raw

PUBLISHERS = CONSUMERS = 50
LOGGED = 7
"""Number of messages of a publisher for each one that is logged."""

RETURNED = 20
"""Number of messages of a publisher for each one that no queue takes, so that it is returned."""

REJECTED = 10
"""Number of messages of a publisher for each one that a consumer with manual acknowledgement rejects."""

Log = dict[str, dict[str, object]]


class Client:
    """An open connection with channel 1; `fates` is what the clients log, by message-id."""

    def __init__(self, port: int, number: int, fates: Log, counts: Counter[str]) -> None:
        self.number = number
        self._peer = raw.Peer.opened(port, 1)
        self._fates = fates
        self._counts = counts
        self._pending = b""

    @property
    def stream(self) -> object:
        return self._peer.stream

    def send(self, data: bytes) -> None:
        self._peer.send(data)

    def read(self) -> None:
        """Take the frames that have come."""
        data = self._pending + self._peer.stream.recv(1 << 18)
        start = 0
        while len(data) - start >= 7:
            kind, _, size = struct.unpack_from(">BHI", data, start)
            end = start + size + 8
            if end > len(data):
                break
            self.take(kind, data[start + 7 : end - 1])
            start = end
        self._pending = data[start:]

    def take(self, kind: int, payload: bytes) -> None:
        raise NotImplementedError

    def note(self, name: str, fate: str, value: object) -> None:
        self._counts[fate] += 1
        if int(name.rpartition("-")[2]) % LOGGED == 0:
            self._fates.setdefault(name, {})[fate] = value

    def close(self) -> None:
        self._peer.send(raw.connection_close())
        self._peer.stream.close()


class Publisher(Client):
    """Publishes with confirms to its queue; every twentieth message, mandatory, to none."""

    def __init__(self, port: int, number: int, fates: Log, counts: Counter[str]) -> None:
        super().__init__(port, number, fates, counts)
        self._peer.send(raw.method(1, 85, 10, b"\0"))
        self._peer.expect(85, 11)
        self.sent = 0
        self._open: dict[int, str] = {}
        self._returned = False

    def publish(self) -> None:
        self.sent += 1
        name = f"{self.number}-{self.sent}"
        is_lost = self.sent % RETURNED == 0
        body = name.encode() * 10
        key = "nowhere" if is_lost else f"busy-{self.number}"
        self.send(
            raw.publish(1, key, bits=1)
            + raw.header(1, len(body), flags=0x0080, properties=raw.shortstr(name))
            + raw.body(1, body)
        )
        self._open[self.sent] = name
        self._counts["published"] += 1

    def take(self, kind: int, payload: bytes) -> None:
        if kind == raw.METHOD and payload[:4] == b"\0\x3c\0\x32":  # basic.return; its content follows
            self._returned = True
        elif kind == raw.HEADER and self._returned:
            self._returned = False
            self.note(_message_id(payload), "returned", True)
        elif kind == raw.METHOD and payload[:4] == b"\0\x3c\0\x50":  # basic.ack
            tag, multiple = struct.unpack_from(">QB", payload, 4)
            for each in [known for known in self._open if known <= tag] if multiple else [tag]:
                self.note(self._open.pop(each), "publish", "confirmed")


class Consumer(Client):
    """Consumes from its queue; an even one acknowledges each message, or rejects every tenth."""

    def __init__(self, port: int, number: int, fates: Log, counts: Counter[str]) -> None:
        super().__init__(port, number, fates, counts)
        self._is_automatic = number % 2 == 1
        self._peer.send(raw.queue_declare(1, f"busy-{number}"))
        self._peer.expect(50, 11)
        self._peer.send(raw.consume(1, f"busy-{number}", no_ack=self._is_automatic))
        self._peer.expect(60, 21)
        self._tag = 0

    def take(self, kind: int, payload: bytes) -> None:
        if kind == raw.METHOD and payload[:4] == b"\0\x3c\0\x3c":  # basic.deliver
            (self._tag,) = struct.unpack_from(">Q", payload, 5 + payload[4])
        elif kind == raw.HEADER:
            name = _message_id(payload)
            fate = "acked"
            if self._is_automatic:
                fate = "auto-acked"
            elif int(name.rpartition("-")[2]) % REJECTED == 0:
                fate = "rejected"
                self.send(raw.method(1, 60, 90, struct.pack(">QB", self._tag, 0)))
            else:
                self.send(raw.method(1, 60, 80, struct.pack(">QB", self._tag, 0)))
            self.note(name, "deliver", fate)


def _message_id(header: bytes) -> str:
    """Return the message-id, the only property of a content header's payload."""
    return header[15 : 15 + header[14]].decode()


def run(port: int, seconds: float, rate: float) -> tuple[Log, Counter[str]]:
    """Publish `rate` messages a second; return what became of those that are logged, and counts of all."""
    fates: Log = {}
    counts: Counter[str] = Counter()
    publishers = [Publisher(port, number, fates, counts) for number in range(PUBLISHERS)]
    consumers = [Consumer(port, number, fates, counts) for number in range(CONSUMERS)]
    with selectors.DefaultSelector() as selector:
        for each in (*publishers, *consumers):
            selector.register(each.stream, selectors.EVENT_READ, each)  # type: ignore[arg-type]
        print("ready", flush=True)
        began, sent = time.monotonic(), 0
        ends = began + seconds
        while (now := time.monotonic()) < ends + 10:
            due = int((min(now, ends) - began) * rate)
            for _ in range(sent, due):
                publishers[sent % PUBLISHERS].publish()
                sent += 1
            for key, _ in selector.select(0.005):
                key.data.read()
            is_done = counts["publish"] == sent and counts["deliver"] + counts["returned"] == sent
            if now >= ends and is_done:
                break
        for each in (*publishers, *consumers):
            each.close()
    return fates, counts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("seconds", type=float)
    parser.add_argument("rate", type=float)
    parser.add_argument("log", type=Path, help="file for what became of the messages, in JSON")
    options = parser.parse_args()
    fates, counts = run(options.port, options.seconds, options.rate)
    options.log.write_text(json.dumps({"fates": fates, "counts": counts}))


if __name__ == "__main__":
    main()
