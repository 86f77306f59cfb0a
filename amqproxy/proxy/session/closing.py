"""The end of a session: its reason, the connection.close sent to each peer, and the connections that are reset."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import trio

from amqproxy.amqp091.errors import ConnectionForced, InternalError, ProtocolError
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.faulty_transport import FaultyTransport
from amqproxy.proxy.leg import HEARTBEAT_LEEWAY, Leg
from amqproxy.proxy.session.opening import turn_away
from amqproxy.proxy.session.session_report import SessionEnd, SessionReport
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport
from amqproxy.taps.protocol_error import AnyProtocolError

FAILURE = InternalError("the proxy failed; its log says how")
SHUTDOWN = ConnectionForced("the proxy is shutting down")
REFUSED = ConnectionForced("closed by a rule of the proxy")

_NO_CLOSES: Mapping[Peer, ProtocolError] = {}  # shared by the many sessions that have no closes yet


class Closing:
    """The end of a session, and what its peers are sent then.

    Each way to end has a method, which records the end in `report` (the first one counts) and the connection.close for
    each peer. `transports` are those connected by then; `legs` is empty until both are connected. If `server_header` is
    set, the client is sent it in place of connection.close.
    """

    __slots__ = ("_closes", "_has_failed", "_lost", "_report", "_transports", "is_cut", "legs", "server_header")

    def __init__(self, transports: Mapping[Peer, Transport], report: SessionReport) -> None:
        self._transports = transports
        self.legs: Mapping[Peer, Leg[Any]] = {}
        self._report = report
        self._closes = _NO_CLOSES
        self.server_header = b""
        self._lost: tuple[Peer, ...] = ()
        self._has_failed = False
        self.is_cut = False
        """Whether both connections are reset without sending anything more."""

    # --- reasons

    def fail(self) -> None:
        """End the session because of an internal error."""
        self._has_failed = True
        self._report.note_failure(FAILURE.code)
        self._closes = {CLIENT: FAILURE, SERVER: FAILURE}

    def abort(self, reason: str) -> None:
        """End the session at once, on a shutdown of the proxy or for an equally forced reason."""
        self._report.finish(SessionEnd("proxy", SHUTDOWN.code, reason))
        self._closes = {CLIENT: SHUTDOWN, SERVER: SHUTDOWN, **self._closes}

    def cut(self, reason: str) -> None:
        """Reset both connections without sending closes, for lack of time."""
        self._report.finish(SessionEnd("proxy", SHUTDOWN.code, reason))
        self._closes = _NO_CLOSES
        self.is_cut = True

    def close(self, text: str) -> None:
        """End the session on behalf of an operator; both peers receive the text."""
        error = ConnectionForced(text)
        self._report.finish(SessionEnd("proxy", error.code, text, is_abnormal=False))
        self._closes = {CLIENT: error, SERVER: error}

    def drained(self, reason: ProtocolError = SHUTDOWN) -> None:
        """Record that all contents in progress are complete; the client is sent its close by the drain."""
        self._report.finish(SessionEnd("proxy", reason.code, "drained", is_abnormal=False))
        self._closes = {**self._closes, SERVER: reason}

    def refuse_by_rule(self, refusal: ProtocolError) -> None:
        """End the session because a rule refused the connection."""
        self._report.finish(SessionEnd("proxy", refusal.code, refusal.reply_text))
        self._closes = {CLIENT: refusal, SERVER: REFUSED}

    def refuse(self, sender: Peer, error: AnyProtocolError, answer: ProtocolError) -> None:
        """End the session for an error of `sender`, which is sent `answer`; the other peer gets a neutral close."""
        self._report.note_violation(sender, error)
        other = ConnectionForced(f"the {sender} broke the protocol: {error.reply_text}")
        self._closes = {sender: answer, sender.other: other}

    def reset(self, peer: Peer, reason: str) -> None:
        """End the session and reset the connection to `peer`, which is silent or does not read."""
        if peer is SERVER:
            self._lose(SERVER)
            self.lose_upstream(reason)
        else:
            self._reset_client(reason)

    def lose_upstream(self, reason: str, by: str = "server") -> None:
        """End the session because the upstream is gone; missed heartbeats of the client are reported as the cause."""
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
        """Reset a client whose missed heartbeats made the upstream close; return whether that was the cause."""
        if sender is not SERVER or code != ConnectionForced.code:
            return False
        missed = self._missed_by_client()
        if missed:
            self._reset_client(missed)
        return bool(missed)

    def _missed_by_client(self) -> str:
        client = self.legs.get(CLIENT)
        return "" if client is None else client.missed_heartbeats(trio.current_time(), HEARTBEAT_LEEWAY)

    def _reset_client(self, reason: str) -> None:
        self._lose(CLIENT)
        self._report.finish(SessionEnd("proxy", 0, f"client {reason}"))
        self._closes = {**self._closes, SERVER: ConnectionForced(f"client {reason}")}

    def _lose(self, peer: Peer) -> None:
        if peer not in self._lost:
            self._lost += (peer,)

    # --- closes

    @property
    def upstream_takes_more(self) -> bool:
        """Whether the client's delayed commands are still to be sent to the upstream."""
        upstream = self.legs.get(SERVER)
        if upstream is None or SERVER in self._lost or self._has_failed:
            return False
        return upstream.is_open

    async def reset_lost(self) -> None:
        """Reset the connections to peers that are silent or do not read."""
        for peer in self._lost:
            transport = self.legs[peer].transport if self.legs else self._transports[peer]
            await transport.reset()

    async def send_closes(self, client: Client, timeout: float) -> None:
        """Send connection.close to each peer that has one recorded, and wait for the answers."""
        if not self._closes:
            return
        async with trio.open_nursery() as nursery:
            for peer, error in self._closes.items():
                if peer not in self.legs:
                    continue
                if peer is CLIENT and self.server_header:
                    nursery.start_soon(turn_away, self.legs[peer].transport, self.server_header, timeout)
                else:
                    nursery.start_soon(self.legs[peer].send_close, error, timeout, client)

    async def linger(self) -> None:
        """Delay the end of the connections for as long as rules require."""
        lingering = [leg.transport for leg in self.legs.values() if isinstance(leg.transport, FaultyTransport)]
        if not lingering:
            return
        async with trio.open_nursery() as nursery:
            for transport in lingering:
                nursery.start_soon(transport.linger)
