"""One recorded connection, played against a live broker: the part that all protocols share.

    recorded steps, in order ─▶ `Player.play` ─▶ a live connection ⇄ bytes ⇄ broker

There is no clock and no socket: the time is passed in, in seconds. A client's command is sent with the live names and
tags; the broker's is awaited, until the time that `play` returns, and compared. Commands that could not be sent,
missing answers and extra ones are reported to the `ReplayResult`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.replay.awaited import Awaited
from amqproxy.replay.broker_link import NEVER, BrokerLink, Life, ReplayedStream
from amqproxy.replay.deliveries import LiveDelivery
from amqproxy.replay.steps import (
    BytesLost,
    BytesSent,
    ConnectionEnded,
    ConnectionRestored,
    ProtocolHeaderSent,
    SentStep,
    Step,
)

MAX_OUTBOX = 1024 * 1024
"""Unsent bytes of a connection above which the playing of its commands pauses."""


class NotReadYet(Exception):
    """The capture has not been read so far."""


class Ahead(Protocol):
    """The part of the recording that has been read ahead."""

    def of_broker(self, stream: int) -> Iterator[Step]:
        """Yield the broker's next steps on a connection, from the one that is being played, and the connection's end.

        It ends where no more has been read ahead, with `NotReadYet` if more will be.
        """


class ComparedLink(BrokerLink):
    """A live connection that compares its broker with the recorded one. An answer may take `timeout` seconds."""

    WHY_OVER: str
    """The reason to report if an answer did not come since its channel or session is over."""

    def __init__(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[], None]) -> None:
        super().__init__(replayed, wake=wake)
        self._awaited = Awaited(self, replayed.result, timeout)
        self._recorded_end: Peer | None = None
        self._is_lossy = False
        """Whether the capture lacks bytes of the recorded connection."""
        self._lacks_answers = False
        """Whether the capture lacks bytes of the recorded broker."""
        self._out_of_step: set[str] = set()
        """Queues whose deliveries differ in content from the recorded ones."""

    @abstractmethod
    def _await_server(self, step: Any, begin: float) -> float | None:
        """Wait for the live counterpart of a recorded broker step, and compare it."""

    @abstractmethod
    def report_rest(self) -> None:
        """Report extra live answers, and unawaited recorded ones that did not come."""

    @abstractmethod
    def report_extra_delivery(self, delivery: LiveDelivery) -> None:
        """Report a message that the recording does not have."""

    def _report_end(self, *, is_expected: bool) -> None:
        """Report that the broker has ended the connection, unless that was expected; end the trace."""
        if not is_expected and not (self._lacks_answers or self._is_ending or self._recorded_end is SERVER):
            self._result.extra_event(self.error, self.stream, self.connection, self._now_ns)
        self._result.live.note(self._trace.end(self._now_ns, "the replay is over"))

    def _await(self, step: Step, begin: float, *, is_over: bool, is_quiet: bool = False) -> float | None:
        """Return until when to wait for an answer, as `Awaited.answer` does."""
        over = self.WHY_OVER
        return self._awaited.answer(step, begin, self._now, is_over=is_over, is_quiet=is_quiet, why_over=over)

    def _await_message(
        self, step: Step, queue: str, key: bytes, begin: float, *, is_late: bool, is_over: bool
    ) -> LiveDelivery | float | None:
        """Return the live delivery that stands for a recorded one, or until when to wait for it; None if none came.

        With `is_late`, chance decides whether it still comes. After the wait, a message with another content may stand
        for it; later ones from that queue then do so at once.
        """
        found = self._board.take(queue, key)
        if found is None and queue in self._out_of_step:
            found = self._board.take_any(queue)
        if found is None:
            is_over = is_over or is_late or queue in self._in_vain
            until = self._await(step, begin, is_over=is_over, is_quiet=True)
            if until is not None:
                return until
            found = self._board.take_any(queue)
            if found is not None:
                self._out_of_step.add(queue)
            elif not is_late:
                self._in_vain.add(queue)
                return None
        if found is not None:
            self._in_vain.discard(queue)
        return found

    def _end(self, step: ConnectionEnded, begin: float) -> float | None:
        """Play the end of the recorded connection."""
        self._recorded_end = step.by
        if self.life is Life.DIALLING or (self.life is Life.CONNECTED and self._is_entering):
            return NEVER
        if self.life is not Life.CONNECTED:
            return None
        if self._is_closed_by_server:
            self._answer_connection_close()
            return None
        if step.by is SERVER and not self._is_ending:
            until = self._await(step, begin, is_over=False)
            if until is not None:
                return until
        if step.by is CLIENT or self._is_ending:
            self._is_ending = True
            self._close("reset" if step.is_reset and step.by is CLIENT else "close")
        else:
            self.finish(self._now)
        return None


class Player(ComparedLink):
    """One connection that is played. `wake` is called with the player when its socket has to act."""

    def __init__(self, replayed: ReplayedStream, *, timeout: float, wake: Callable[[Player], None]) -> None:
        super().__init__(replayed, timeout=timeout, wake=lambda: wake(self))

    def play(self, step: Step, now: float, due: float, ahead: Ahead) -> float | None:
        """Play a step; return None when it is done, else until when to wait unless something is received first."""
        self._now = now
        try:
            if isinstance(step, BytesLost):
                self._is_lossy = True
                self._lacks_answers |= step.sender is SERVER
                if step.sender is CLIENT:
                    self._result.unplayed(step, f"{step.lost} bytes: {step.reason}")
                    self._lose_track()
                return None
            if isinstance(step, ConnectionEnded):
                return self._end(step, max(now, due))
            if step.sender is SERVER:
                return None if self.life is Life.NEW else self._await_server(step, max(now, due))
            until = self._begin(step)
            return self._play_client(step, ahead) if until is None else until
        except NotReadYet:
            return NEVER

    def _begin(self, step: SentStep | ProtocolHeaderSent | BytesSent | ConnectionRestored) -> float | None:
        """Return until when a step of the client has to wait; None if it can be played, or never will be."""
        if self.life is Life.NEW:
            if isinstance(step, BytesSent):
                return None
            self._is_joined = not isinstance(step, ProtocolHeaderSent)
            if isinstance(step, ConnectionRestored):
                self._recorded_host = step.snapshot.handshake.virtual_host
            self.life = Life.DIALLING
            self.must_dial = self.has_socket = True
            self._wake()
            return NEVER
        if self.life is Life.DIALLING:
            return NEVER
        if len(self.outbox) > MAX_OUTBOX and self.life is Life.CONNECTED:
            return self._awaited.patience(step, self._now, "the broker does not read")
        return None

    def _lose_track(self) -> None:
        """Handle the loss of client bytes, after which its opened channels are unknown."""

    @abstractmethod
    def _play_client(self, step: Any, ahead: Ahead) -> float | None:
        """Play a step of the client on a connection that is established, or over."""
