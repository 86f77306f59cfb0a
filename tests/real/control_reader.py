"""A subscriber on the control socket of a running proxy."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec

from amqproxy.capture.packet_decoder import PacketDecoder
from amqproxy.control.control_client import ControlClient
from amqproxy.control.request_error import RequestError
from amqproxy.dashboard.observation import Observation
from amqproxy.dashboard.ring_entry import RingEntry


class Reader(Thread):
    """Events of a subscription; none is read while `may_read` is clear."""

    def __init__(self, path: Path, **wanted: bool) -> None:
        super().__init__(daemon=True)
        self.client = ControlClient(path)
        self.client.ask("subscribe", **wanted)
        self.events: list[dict[str, Any]] = []
        self.may_read = Event()
        self.may_read.set()
        self.start()

    def run(self) -> None:
        with suppress(RequestError):  # the proxy is gone
            for event in self.client.events():
                self.events.append(dict(event))
                self.may_read.wait()

    def records(self, kind: str) -> list[dict[str, Any]]:
        return [each["record"] for each in list(self.events) if each["event"] == kind]


class DashboardReader(Reader):
    """The dashboard's observation of packets; `lost` is the number of frames that it was too slow for."""

    def __init__(self, path: Path) -> None:
        self._decoder, self._observation = PacketDecoder(), Observation(1 << 26, is_live=True)
        self._seq = 0
        self.lost = 0
        super().__init__(path, packets=True)

    def messages(self, containing: bytes = b"") -> Iterator[dict[str, Any]]:
        """Yield the messages that were read so far whose JSON is `containing` some text, with their last outcomes."""
        while self.events:
            event = self.events.pop(0)
            if event["event"] == "lost":
                self.lost += event["count"]
            elif event["event"] == "packets":
                for decoded in self._decoder.feed(b64decode(event["data"])):
                    self._observation.take(RingEntry(self._seq, 1, 0.0, decoded, 0))
                    self._seq += 1
        for row in self._observation.messages.snapshot():
            if containing in row.json:
                yield msgspec.json.decode(row.json)
