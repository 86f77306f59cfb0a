"""The protocol-independent part of a replay's live connections: their socket, and its end."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, NamedTuple

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.replay.deliveries import DeliveryBoard, LiveDelivery
from amqproxy.replay.names import ConnectionNames, SharedNames
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.target import Target
from amqproxy.taps.session_trace import SessionTrace

NEVER = float("inf")

Watch = Callable[[int, Peer, bytes, float], None]
"""Observer of a live connection's bytes, without secrets: called with stream, sender, bytes and time."""


class Life(StrEnum):
    """The state of a live connection."""

    NEW = "new"
    """No step has been played."""
    DIALLING = "dialling"
    CONNECTED = "connected"
    ENDED = "ended"


class ReplayedStream(NamedTuple):
    """A recorded connection by its number and name, and the state that it shares with the others of its copy."""

    stream: int
    connection: str
    target: Target
    names: SharedNames
    board: DeliveryBoard
    result: ReplayResult
    watch: Watch | None = None


class BrokerLink(ABC):
    """One connection to a broker, with its copy's names. `wake` is called when its socket has to act.

    `must_dial` asks for a socket; `outbox` holds the bytes to send; `ending` is "close" or "reset" if the socket must
    be closed after that. `error` is the reason of an unrequested end.
    """

    CLOSE_OK: ClassVar[Any]
    """The answer to a close of the connection."""
    _masked: Callable[[bytes], bytes]
    """Returns bytes to send without the secrets in them."""

    def __init__(self, replayed: ReplayedStream, *, wake: Callable[[], None]) -> None:
        self.stream = replayed.stream
        self.connection = replayed.connection
        self.outbox = bytearray()
        self.ending = ""
        self.must_dial = False
        self.has_socket = False
        self.life = Life.NEW
        self.error = ""
        self._target = replayed.target
        self._names = ConnectionNames(replayed.names)
        self._board = replayed.board
        self._result = replayed.result
        self._wake = wake
        self._watch = replayed.watch
        self._trace = SessionTrace()
        self._has_eof = False
        self._now = self._heard_at = self._sent_at = 0.0
        self._is_joined = False
        """Whether the channels that the recorded client had opened are unknown, since the capture lacks bytes."""
        self._is_ending = False
        """Whether the recorded client, or the replay, has requested the connection's end."""
        self._is_closed_by_server = False
        """Whether the live broker waits for the answer to its close."""
        self._virtual_host = ""
        self._recorded_host: str | None = None
        """The virtual host of a connection whose recorded handshake is not in the capture, if it is known."""
        self._in_vain: set[str] = set()
        """Queues from which an awaited delivery did not come."""

    # --- the protocol's part

    @abstractmethod
    def _greet(self) -> None:
        """Send the first bytes on a new socket."""

    @abstractmethod
    def _feed(self, data: bytes) -> None:
        """Take bytes of the live broker."""

    @property
    @abstractmethod
    def received(self) -> int:
        """Bytes of received frames."""

    @property
    @abstractmethod
    def _heartbeat(self) -> float:
        """Heartbeat interval in seconds; 0 without heartbeats, or before they have begun."""

    @abstractmethod
    def _send_heartbeat(self) -> None:
        """Send a heartbeat."""

    @property
    @abstractmethod
    def _is_entering(self) -> bool:
        """Whether the login of a connection without a recorded handshake is under way."""

    @abstractmethod
    def _ask_for_end(self) -> None:
        """Close the connection at the end of the replay as a client does, or else the socket."""

    @abstractmethod
    def _send(self, channel: int, method: Any) -> None:
        """Send a method without content that is not a recorded one."""

    @abstractmethod
    def _end_channels(self) -> None:
        """End all channels or sessions at the end of the connection."""

    # --- the socket

    def connected(self, now: float) -> None:
        """Begin the connection on its new socket."""
        self._now = self._heard_at = self._sent_at = now
        self.life = Life.CONNECTED
        self._result.connections += 1
        self._greet()

    def receive(self, data: bytes, now: float) -> None:
        """Take bytes of the live broker."""
        self._now = self._heard_at = now
        if self._watch is not None:
            self._watch(self.stream, SERVER, data, now)
        self._feed(data)

    def tick(self, now: float) -> float:
        """Send a heartbeat if one is due; return when to call again."""
        self._now = now
        heartbeat = self._heartbeat
        if self.life is not Life.CONNECTED or not heartbeat:
            return NEVER
        if now - self._sent_at >= heartbeat / 2 and not self._is_closed_by_server:
            self._send_heartbeat()
        if now - self._heard_at > 2 * heartbeat:
            self.fault("the broker was silent for two heartbeat intervals")
            return NEVER
        return now + heartbeat / 4

    def finish(self, now: float) -> None:
        """Close the live connection at the end of the recording, if it is open."""
        self._now = now
        if self.life in (Life.NEW, Life.DIALLING):
            self._end_live("the replay is over")
        elif self.life is Life.CONNECTED and self._is_closed_by_server:
            self._answer_connection_close()
        elif self.life is Life.CONNECTED and not self.ending:
            self._ask_for_end()

    def failed(self, reason: str, now: float) -> None:
        """End a connection whose broker cannot be reached."""
        self._now = now
        self._end_live(reason)

    def receive_end(self, reason: str, now: float) -> None:
        """End a connection whose socket the live broker has closed, or that is broken."""
        self._now = now
        self._has_eof = True
        if self.life is Life.CONNECTED:
            self._end_live(reason or "the broker closed the connection")

    def fault(self, reason: str) -> None:
        """Give up the live connection."""
        self._result.extra_event(reason, self.stream, self.connection, self._now_ns)
        self._close("close")
        self._end_live(reason)

    def _answer_connection_close(self) -> None:
        """Answer the live broker's close, and end the connection."""
        self._send(0, self.CLOSE_OK)
        self._close("close")
        self._end_live(self.error)

    def _write(self, data: bytes, *, has_secrets: bool = True) -> None:
        if self.life is Life.CONNECTED and not self.ending:
            self.outbox += data
            if self._watch is not None:
                self._watch(self.stream, CLIENT, self._masked(data) if has_secrets else data, self._now)
            self._sent_at = self._now
            self._wake()

    def _close(self, how: str) -> None:
        if self.life is Life.CONNECTED and not self.ending:
            self.ending = how
            self._wake()

    def _end_live(self, reason: str) -> None:
        """End the live connection."""
        self.error = self.error or reason
        if self.life is not Life.ENDED:
            self.life = Life.ENDED
            self._end_channels()
        self._wake()

    def _keep_delivery(self, delivery: LiveDelivery) -> None:
        """Keep a message of the live broker until the recording asks for it."""
        self._board.add(delivery)
        self._in_vain.discard(delivery.queue)

    @property
    def _now_ns(self) -> int:
        return int(self._now * 1e9)


def on_one_line(text: str) -> str:
    """Return a reply text without line breaks."""
    return " ".join(text.split())


def least(one: int, other: int) -> int:
    """Return the lower of two limits, of which 0 is none."""
    return min(one or other, other or one)
