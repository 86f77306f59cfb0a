"""Ends one session without losing a message: contents in progress are completed, and then the client is asked to close.

A `Drain` decides what passes meanwhile, when the client is sent connection.close, and when that is answered. The
session carries it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import Enum, auto

import trio

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.transitions import CLIENT, CONNECTION_CLOSING, ConnectionState, Peer
from amqproxy.proxy.leg import TAKES_CLOSE, Leg
from amqproxy.proxy.session.session_state import SessionState
from amqproxy.sockets.transport import TransportBroken


class DrainStart(Enum):
    """How the drain of a session begins."""

    NOT_AGAIN = auto()
    """It has begun before."""
    ABORT = auto()
    """There is nothing to complete: the session ends at once."""
    AWAIT_CLOSE = auto()
    """The connection is being closed already: that has some time to end."""
    DRAIN = auto()
    """A `Drain` begins."""


def drain_start(session: SessionState, connection: ConnectionState) -> DrainStart:
    """How to drain a session in this state, whose connection to the client is in that one."""
    if session in (SessionState.DRAINING, SessionState.LEAVING):
        return DrainStart.NOT_AGAIN
    if session is not SessionState.RELAYING:
        return DrainStart.ABORT
    if connection in CONNECTION_CLOSING:
        return DrainStart.AWAIT_CLOSE
    return DrainStart.DRAIN if connection in TAKES_CLOSE else DrainStart.ABORT


class Drain:
    """The contents in progress when the drain began, and what passes until they are complete.

    All that the client sends passes. What the server sends on a channel passes up to the next content
    that it begins there, and nothing after that: a confirm must not overtake the return, or
    a reply the delivery, that went before it. Once the client `is_leaving`, since it was sent connection.close, only
    its own close passes, if that crossed ours.

    `readers` are those of each sender. They must hand over every frame from here on.
    """

    def __init__(self, client: Leg, readers: Mapping[Peer, FrameReader]) -> None:
        self.is_leaving = False
        self._client = client
        self._readers = readers
        self._unfinished = {peer: _mid_content(reader) for peer, reader in readers.items()}
        self._cut_off: set[int] = set()
        self._close_sent = trio.Event()

    @property
    def is_complete(self) -> bool:
        """Is no content left that had begun? To be asked between two chunks, not within one."""
        for peer, reader in self._readers.items():
            self._unfinished[peer] &= _mid_content(reader)
        return not any(self._unfinished.values())

    def passes(self, sender: Peer, frame: Frame) -> bool:
        """Is the frame, the next of `sender`'s, passed on?"""
        if self.is_leaving:
            return sender is CLIENT and self._client.connection.state is ConnectionState.CLOSED_BY_SERVER
        channel = frame.channel
        unfinished = self._unfinished[sender]
        if channel in unfinished:
            if frame.kind != METHOD:
                return True
            unfinished.remove(channel)  # the content before a method is complete
        if sender is CLIENT or channel == 0:
            return True
        if frame.kind != METHOD or BY_INDEX[frame.index].carries_content:
            self._cut_off.add(channel)
        return channel not in self._cut_off

    def close(self, error: ProtocolError) -> bytes | None:
        """The connection.close for the client, once the contents in progress are complete; None before, and after.

        Its leg counts as closed from here on, and so nothing of the server's comes after the close
        or between it and what was passed on before. It is to be sent by `send_close`.
        """
        if self.is_leaving or not self._client.takes_close or not self.is_complete:
            return None
        self.is_leaving = True
        return self._client.close(error)

    async def send_close(self, data: bytes) -> None:
        """Send the client its connection.close, and what comes before that."""
        with suppress(TransportBroken):  # its own direction ends the session
            await self._client.transport.send(data)
        self._close_sent.set()

    async def is_answered(self) -> bool:
        """Has the client answered connection.close? A close of its own, which crossed it, is answered first."""
        connection = self._client.connection
        if connection.state is ConnectionState.CLOSED_BY_BOTH:
            await self._close_sent.wait()
            with suppress(TransportBroken):
                await self._client.answer_close()
        return connection.state is ConnectionState.CLOSED


def _mid_content(reader: FrameReader) -> set[int]:
    return {channel for channel, content_state in reader.content_states.items() if content_state.expects != METHOD}
