"""Drain of one 0-10 connection up to a command boundary, before connection.close."""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import BY_INDEX
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.session.farewell import Farewell

_OF_CONNECTION = frozenset(cls.index for cls in BY_INDEX if cls.name.startswith("connection."))
_CONTROLS_OF_CONNECTION = (0, int(Track.CONTROL))


class Amqp010Drain(Farewell):
    """The commands and controls in progress when the drain began, and the filter of frames until they are complete.

    All frames of the client pass. The server's frames on a channel pass up to the next message that it begins there,
    and none after that: a completion must not overtake the rejection, or a result the message, that preceded it. Once
    the client `is_leaving`, no frame passes.

    `readers` are those of each sender.
    """

    def __init__(self, client: Amqp010Leg, readers: Mapping[Peer, FrameReader]) -> None:
        super().__init__(client)
        self._readers = readers
        self._unfinished = {peer: reader.open_tracks for peer, reader in readers.items()}
        self._cut_off: set[int] = set()

    @property
    def is_complete(self) -> bool:
        """Whether all commands and controls in progress are complete. To be called between chunks, not within one."""
        for peer, reader in self._readers.items():
            self._unfinished[peer] &= reader.open_tracks
        if _CONTROLS_OF_CONNECTION in self._readers[SERVER].open_tracks:  # the proxy's close would come within it
            return False
        return not any(self._unfinished.values())

    def passes(self, sender: Peer, frame: Frame) -> bool:
        """Whether the frame, the next of `sender`'s, is forwarded."""
        if self.is_leaving:
            return False
        channel, track = frame.channel, frame.track
        unfinished = self._unfinished[sender]
        if (channel, track) in unfinished:
            if not frame.begins_assembly:
                if frame.ends_assembly:
                    unfinished.remove((channel, track))
                return True
            unfinished.remove((channel, track))  # it was interrupted
        if sender is CLIENT or frame.index in _OF_CONNECTION:
            return True
        if frame.begins_assembly and frame.index == MessageTransfer.index:
            self._cut_off.add(channel)
        return channel not in self._cut_off
