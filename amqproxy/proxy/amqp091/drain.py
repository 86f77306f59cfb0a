"""Drain of one session without losing a message: contents in progress are completed before connection.close.

A `Drain` decides which frames pass meanwhile, and when the client is sent connection.close by the session.
"""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.transitions import CLIENT, ConnectionState, Peer
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.proxy.session.farewell import Farewell


class Drain(Farewell):
    """The contents in progress when the drain began, and the filter of frames until they are complete.

    All frames of the client pass. The server's frames on a channel pass up to the next content that it begins there,
    and none after that: a confirm must not overtake the return, or a reply the delivery, that preceded it. Once the
    client `is_leaving`, since it was sent connection.close, only its own close passes, if that crossed the proxy's.

    `readers` are those of each sender. They must hand over every frame during the drain.
    """

    def __init__(self, client: Amqp091Leg, readers: Mapping[Peer, FrameReader]) -> None:
        super().__init__(client)
        self._connection = client.connection
        self._readers = readers
        self._unfinished = {peer: _mid_content(reader) for peer, reader in readers.items()}
        self._cut_off: set[int] = set()

    @property
    def is_complete(self) -> bool:
        """Whether all contents in progress are complete. To be called between two chunks, not within one."""
        for peer, reader in self._readers.items():
            self._unfinished[peer] &= _mid_content(reader)
        return not any(self._unfinished.values())

    def passes(self, sender: Peer, frame: Frame) -> bool:
        """Whether the frame, the next of `sender`'s, is forwarded."""
        if self.is_leaving:
            return sender is CLIENT and self._connection.state is ConnectionState.CLOSED_BY_SERVER
        channel = frame.channel
        unfinished = self._unfinished[sender]
        if channel in unfinished:
            if frame.kind != METHOD:
                return True
            unfinished.remove(channel)  # a method ends the content before it
        if sender is CLIENT or channel == 0:
            return True
        if frame.kind != METHOD or BY_INDEX[frame.index].carries_content:
            self._cut_off.add(channel)
        return channel not in self._cut_off


def _mid_content(reader: FrameReader) -> set[int]:
    return {channel for channel, content_state in reader.content_states.items() if content_state.expects != METHOD}
