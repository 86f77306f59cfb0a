"""How a session ends: why, which peer is sent which connection.close, and which connection is reset."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from functools import partial

import trio

from amqproxy.amqp091.errors import ConnectionForced, InternalError, ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.protocol_header import HEADER, foreign_answer
from amqproxy.amqp091.rabbitmq_errors import reworded, reworded_reading
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.interception.effects import ConnectionRefusal
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.proxy.watched_leg import HEARTBEAT_LEEWAY
from amqproxy.rules.context import Client

FAILURE = InternalError("the proxy failed; its log says how")
SHUTDOWN = ConnectionForced("the proxy is shutting down")
REFUSED = ConnectionForced("closed by a rule of the proxy")

_NO_CLOSES: Mapping[Peer, ProtocolError] = {}  # most sessions have none for most of their life


class Closing:
    """The end of a session, as it becomes known, and what is sent to its peers then.

    Each way to end has a method, which notes the end in `report` (the first one counts) and the connection.close for
    each peer. `legs` are those that there are by then; `partings` stand in their place where the peers speak AMQP 0-10.
    """

    __slots__ = ("_closes", "_has_failed", "_legs", "_lost", "_report", "_server_header", "partings")

    def __init__(self, legs: Mapping[Peer, Leg], report: SessionReport) -> None:
        self._legs = legs
        self.partings: Mapping[Peer, Leg | AMQP010Leg] = legs
        self._report = report
        self._closes = _NO_CLOSES
        self._server_header = b""
        self._lost: tuple[Peer, ...] = ()
        self._has_failed = False

    # --- why it ends

    def fail(self) -> None:
        """An exception of our own ends the session."""
        self._has_failed = True
        self._report.note_failure(FAILURE.code)
        self._closes = {CLIENT: FAILURE, SERVER: FAILURE}

    def abort(self, reason: str) -> None:
        """The session is ended where it stands."""
        self._report.finish(SessionEnd("proxy", SHUTDOWN.code, reason))
        self._closes = {CLIENT: SHUTDOWN, SERVER: SHUTDOWN, **self._closes}

    def close(self, text: str) -> None:
        """An operator ends the session; both peers receive the text."""
        error = ConnectionForced(text)
        self._report.finish(SessionEnd("proxy", error.code, text, is_abnormal=False))
        self._closes = {CLIENT: error, SERVER: error}

    def drained(self) -> None:
        """The contents in progress are complete; the client is sent its close at once."""
        self._report.finish(SessionEnd("proxy", SHUTDOWN.code, "drained", is_abnormal=False))
        self._closes = {**self._closes, SERVER: SHUTDOWN}

    def refuse_by_rule(self, refusal: ProtocolError) -> None:
        """A rule wants the connection closed."""
        self._report.finish(SessionEnd("proxy", refusal.code, refusal.reply_text))
        self._closes = {CLIENT: refusal, SERVER: REFUSED}

    def refuse(self, sender: Peer, error: ProtocolError, culprit: Frame | None = None) -> None:
        """What `sender` sent, the frame `culprit` if that is known, is wrong; the other side gets a close without
        blame.
        """
        reader = self._legs[sender].reader
        if error is reader.error:
            error.received = reader.refused
            if sender is SERVER and not reader.frames:
                self._refuse_foreign_server(error)
        elif culprit is not None:
            error.received = culprit.raw
        self._report.note_violation(sender, error)
        own = _reworded(error, self._legs[CLIENT], culprit) if sender is CLIENT else error
        other = ConnectionForced(f"the {sender} broke the protocol: {error.reply_text}")
        self._closes = {sender: own, sender.other: other}

    def _refuse_foreign_server(self, error: ProtocolError) -> None:
        """Name the protocol of a server that has answered in another one, and keep its header for the client."""
        text = foreign_answer(error.received)
        if not text:
            return
        error.text, error.offset = text, 0
        if error.received[:4] == HEADER[:4]:  # section 4.2.2: the client learns which protocol the server takes
            self._server_header = error.received[: len(HEADER)]

    def reset(self, peer: Peer, reason: str) -> None:
        """A peer is silent or does not read: its connection is reset."""
        if peer is SERVER:
            self._lose(SERVER)
            self.lose_upstream(reason)
        else:
            self._reset_client(reason)

    def lose_upstream(self, reason: str, by: str = "server") -> None:
        """The upstream is gone: because the client was silent, where it was, and else by its own fault, or a rule's."""
        if self._report.end is not None:
            return
        missed = self._missed_by_client()
        if missed:
            self._reset_client(missed)
        else:
            self._report.metrics.upstream_failures.labels("lost").inc()
            self._report.finish(SessionEnd(by, 0, f"upstream {reason}"))
            self._closes = {**self._closes, CLIENT: ConnectionForced(f"upstream {reason}")}

    def reset_if_silent(self, sender: Peer, code: int) -> bool:
        """Reset a client that has missed its heartbeats, where that is why the upstream closes; was it so?"""
        if sender is not SERVER or code != ConnectionForced.code:
            return False
        missed = self._missed_by_client()
        if missed:
            self._reset_client(missed)
        return bool(missed)

    def _missed_by_client(self) -> str:
        return self.partings[CLIENT].missed_heartbeats(trio.current_time(), HEARTBEAT_LEEWAY)

    def _reset_client(self, reason: str) -> None:
        self._lose(CLIENT)
        self._report.finish(SessionEnd("proxy", 0, f"client {reason}"))
        self._closes = {**self._closes, SERVER: ConnectionForced(f"client {reason}")}

    def _lose(self, peer: Peer) -> None:
        if peer not in self._lost:
            self._lost += (peer,)

    # --- what is sent then

    @property
    def upstream_takes_more(self) -> bool:
        """Is what has waited of the client's still to be sent to the upstream?"""
        upstream = self.partings.get(SERVER)
        if upstream is None or SERVER in self._lost or self._has_failed:
            return False
        return upstream.is_open

    async def reset_lost(self) -> None:
        """Reset the connections to peers that are silent or do not read."""
        for peer in self._lost:
            await self.partings[peer].transport.reset()

    async def send_closes(self, client: Client, timeout: float) -> None:
        """Send connection.close to the peers that are to know why the session ended, and wait for their answers."""
        async with trio.open_nursery() as nursery:
            for peer, error in self._closes.items():
                if peer in self.partings:
                    leg = self.partings[peer]
                    if peer is CLIENT and isinstance(leg, Leg) and self._server_header:
                        nursery.start_soon(leg.turn_away, timeout, self._server_header)
                        continue
                    is_understood = (
                        isinstance(leg, Leg) and peer is CLIENT and _is_expected(error, leg.connection.state, client)
                    )
                    nursery.start_soon(partial(leg.send_close, is_understood=is_understood), error, timeout)

    async def linger(self) -> None:
        """Put off the end of the connections for as long as rules require."""
        async with trio.open_nursery() as nursery:
            for leg in self.partings.values():
                if isinstance(leg.transport, FaultyTransport):
                    nursery.start_soon(leg.transport.linger)


def culprit_of(frames: list[Frame], error: Exception) -> Frame | None:
    """The frame that an error is about, if it is among these."""
    if not isinstance(error, ProtocolError) or error.offset is None:
        return None
    offset = error.offset
    return next((frame for frame in frames if frame.offset <= offset < frame.offset + frame.length()), None)


def _reworded(error: ProtocolError, client: Leg, culprit: Frame | None) -> ProtocolError:
    """The error that RabbitMQ would send to a client for this; the log has the details."""
    reader, error_of_client = client.reader, copy(error)
    if error is reader.error:
        return reworded_reading(error_of_client, reader.refused, reader.frame_max)
    if culprit is not None:
        return reworded(error_of_client, culprit, client.connection.state)
    return error


def _is_expected(error: ProtocolError, state: ConnectionState, client: Client) -> bool:
    """Does a client whose login or limits a rule has refused expect connection.close? As RabbitMQ decides it."""
    if not isinstance(error, ConnectionRefusal):
        return False
    if state is ConnectionState.ANSWERED:
        return client.announced("authentication_failure_close")
    return state is ConnectionState.AGREED
