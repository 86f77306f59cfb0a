"""Display of a client's traffic with the broker to a tap, as for the proxy's sessions, and its metrics."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from amqproxy.amqp091.protocol_header import HEADER, recognise
from amqproxy.broker.server.dialects import FIRST, spoken
from amqproxy.broker.server.reading import ConnectionMeter
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.process.supervision import contained
from amqproxy.taps.metrics import Metrics
from amqproxy.taps.tap import UNKNOWN_JOINS, Tap

_HEADER_BYTES = len(HEADER)


class ConnectionTap:
    """One connection with number `number` as seen by `tap`, if there is one; its bytes are read a second time for that.

    Client bytes are shown before the broker processes them, and broker bytes before they are sent, so that each reply
    is shown after its request. A tap that fails is not shown this connection any more. With `metrics`, the traffic is
    counted there by the `meter`; `byte_counts` are the bytes that each peer has sent.
    """

    def __init__(
        self, tap: Tap | None, number: int, name: str, *, is_tls: bool, metrics: Metrics | None = None
    ) -> None:
        self.number = number
        self.name = name.replace(" -> ", "-")
        self.is_tls = is_tls
        self.upstream_name = ""
        self.stalled_ns = 0
        self.byte_counts = {CLIENT: 0, SERVER: 0}
        self._reading = FIRST.reading(metrics)
        self._metrics = metrics
        self._tap = tap
        self._joins = UNKNOWN_JOINS if tap is None else tap.joins
        self.client: Callable[[], Any] | None = None
        """Function that returns the connection that serves the client, whose state taps are shown that join later."""
        self._has_failed = False
        self._is_over = False
        self._first = b""
        self._is_greeted = self._is_counted = False

    @property
    def meter(self) -> ConnectionMeter | None:
        """The meter of this connection; `None` without metrics or once it is over."""
        return None if self._is_counted else self._reading.meter

    def show_to(self, tap: Tap | None) -> None:
        """Show further traffic to another tap, or to none."""
        if not self._has_failed:
            self._tap = tap
            self._joins = UNKNOWN_JOINS

    def received(self, data: bytes) -> None:
        """Process bytes received from the client."""
        self.byte_counts[CLIENT] += len(data)
        if self._is_over:
            return
        if not self._is_greeted:
            data = self._greet(data)
        else:
            self._show_state()
        if data:
            self._read(CLIENT, data)

    def sent(self, pieces: Sequence[bytes]) -> None:
        """Process bytes about to be sent to the client."""
        if self._is_greeted and not self._is_over and pieces:
            self._show_state()
        for data in pieces:
            self.byte_counts[SERVER] += len(data)
            if self._is_greeted and not self._is_over:
                self._read(SERVER, data)

    def ended(self, reason: str) -> None:
        """Show and count the end of the connection."""
        if not self._is_over:
            self._is_over = True
            self._show_end(reason)
        meter, self._is_counted = self.meter, True
        if meter is not None:
            with contained("connection not counted", client=self.name):
                meter.close()

    def _greet(self, data: bytes) -> bytes:
        """Show the complete protocol header and return the bytes after it; unknown protocols are not read."""
        self._first += data
        protocol = recognise(self._first)
        if protocol is None:
            return b""
        if self._tap is not None:
            with self._shown():
                self._tap.saw_protocol_header(self, self._first[:_HEADER_BYTES])
        dialect = spoken(protocol)
        if dialect is None:
            self._is_over = True
            self._show_end(f"the client speaks another protocol: {protocol}")
            return b""
        if dialect is not FIRST:
            self._reading = dialect.reading(self._metrics)
        self._is_greeted = True
        return self._first[_HEADER_BYTES:]

    def _read(self, sender: Peer, data: bytes) -> None:
        """Read, show and count a peer's frames; an internal error ends only this reading, not the connection."""
        reading = self._reading
        with contained("connection not shown any further", then=self._stop_reading, client=self.name):
            if sender is SERVER:
                header, data = reading.take_header(data)
                if header and self._tap is not None:
                    with self._shown():
                        self._tap.saw_protocol_header(self, header, SERVER)
            has_frames, error = reading.read(sender, data)
            if has_frames:
                if self._tap is not None:
                    with self._shown():
                        reading.show(self._tap, self, sender)
                with self._counted():
                    reading.count(sender, time.perf_counter())
            if error is not None:
                if self._tap is not None:
                    with self._shown():
                        self._tap.saw_violation(self, sender, error)
                if self.meter is not None:
                    with self._counted():
                        self.meter.count_violation(sender, error)

    def _show_state(self) -> None:
        """Show the tap the state of the connection, if it has joined since it was shown this connection's frames."""
        tap = self._tap
        if tap is None or self.client is None or tap.joins == self._joins:
            return
        with self._shown():
            joins, snapshot = tap.joins, self._reading.snapshot(self.client(), time.time_ns())
            if snapshot is not None:
                self._joins = joins
                tap.saw_snapshot(self, snapshot)

    def _stop_reading(self, failure: Exception) -> None:
        self._is_over = True
        self._show_end("internal error")

    # --- the end, and failures

    def _show_end(self, reason: str) -> None:
        if self._tap is not None:
            with self._shown():
                self._tap.saw_end(self, reason)
        self._tap = None

    def _shown(self) -> AbstractContextManager[None]:
        return contained("tap failed", then=self._lose, client=self.name)

    def _counted(self) -> AbstractContextManager[None]:
        return contained("connection not counted", then=self._lose_meter, client=self.name)

    def _lose(self, failure: Exception) -> None:
        self._tap = None
        self._has_failed = True

    def _lose_meter(self, failure: Exception) -> None:
        if self.meter is not None:
            self.meter.lose()
