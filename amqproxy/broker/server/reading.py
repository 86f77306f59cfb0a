"""Second reading of the bytes between a client and the broker, without its protocol, for taps and counters."""

from __future__ import annotations

from typing import Any

from amqproxy.peer import Peer
from amqproxy.taps.metrics import Metrics, code_label
from amqproxy.taps.tap import Tap, TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot


class ConnectionMeter:
    """Metrics of one connection from its first frame on, counted as the proxy counts its sessions.

    The frames themselves are counted by the reading. `messages` counts the messages, if they are counted.
    """

    def __init__(self, metrics: Metrics, messages: Any) -> None:
        self._metrics = metrics
        self._messages = messages
        self._end: tuple[str, int] | None = None

    @property
    def messages(self) -> Any:
        """The meter of the messages; `None` where they are not counted, or not any more."""
        return self._messages

    def channel(self, number: int) -> Any:
        """Return the meter of a channel or session; None where messages are not counted."""
        raise NotImplementedError

    def lose(self) -> None:
        """Stop counting messages, after a failure."""
        messages, self._messages = self._messages, None
        if messages is not None:
            messages.close()

    def count_violation(self, sender: Peer, error: Any) -> None:
        """Count bytes that cannot be read."""
        self._metrics.protocol_errors.labels(str(sender), code_label(int(error.code))).inc()

    def close(self) -> None:
        """Count the end of the connection."""
        by, code = self._end or ("client", 0)
        self._metrics.closes.labels(by, code_label(code) if code else "none").inc()
        self.lose()


class Reading:
    """Frames of one connection after the client's protocol header, for `connection_tap`; a dialect derives from it.

    The readers by peer count the frames in the tallies of the metrics. `meter` is there if there are metrics.
    """

    def __init__(self, readers: dict[Peer, Any]) -> None:
        self.meter: ConnectionMeter | None = None
        self._readers = readers
        self._frames: list[Any] = []

    def take_header(self, data: bytes) -> tuple[bytes, bytes]:
        """Return the broker's protocol header, once it is complete, and the bytes after it."""
        return b"", data

    def read(self, sender: Peer, data: bytes) -> tuple[bool, Any]:
        """Return whether whole frames were read, and the error after them, which ends the reading of this peer."""
        reader = self._readers.get(sender)
        if reader is None:
            return False, None
        self._frames = reader.feed(data)
        error = reader.error
        if error is not None:
            del self._readers[sender]
            error.received = reader.refused
        return bool(self._frames), error

    def show(self, tap: Tap, connection: TappedSession, sender: Peer) -> None:
        """Show a tap the frames that were read last."""
        raise NotImplementedError

    def snapshot(self, client: Any, ts_ns: int) -> ConnectionSnapshot | None:
        """Return the state of the connection that serves `client` after all frames that were read.

        `None` if it cannot be told now: before the handshake has ended, while the connection is closing, or while a
        reply is awaited that changes what it is.
        """
        raise NotImplementedError

    def count(self, sender: Peer, now: float) -> None:
        """Count the frames that were read last, by the meter; `now` is in seconds."""
        raise NotImplementedError
