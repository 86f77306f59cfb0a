"""Where the requests of one connection are among what their senders sent: their outcome comes with their answers."""

from __future__ import annotations

from amqproxy.amqp010.commands import MessageAccept, MessageReject, MessageRelease, MessageTransfer
from amqproxy.amqp010.errors import ProtocolError as Amqp010Error
from amqproxy.amqp010.frame import COMMAND
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.methods import BY_NAME
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.transitions import REPLIES
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.events import CommandMethod, Method

MAX_REQUESTS = 65_536
"""Requests of one connection whose places are remembered until they are answered."""

_IS_REQUEST = frozenset(REPLIES)
_HEARTBEAT = BY_NAME["connection.heartbeat"].index
_REQUEST_TIMEOUT = BY_NAME["session.request-timeout"].index
_NO_REQUESTS = frozenset(
    each.index
    for each in (
        MessageTransfer,
        MessageAccept,
        MessageReject,
        MessageRelease,
        BY_NAME["execution.result"],
        BY_NAME["execution.exception"],
    )
)
"""Commands of 0-10 that carry messages, settle them, or answer others."""


class RequestPlaces:
    """Numbers the frames of each peer from 1, without heartbeats: `counts` has the latest."""

    __slots__ = ("_requests", "counts")

    def __init__(self) -> None:
        self.counts = {CLIENT: 0, SERVER: 0}
        self._requests: dict[int, tuple[int, Method]] = {}

    def take(self, sender: Peer, frame: Frame | Amqp010Frame) -> Method | None:
        """Number a frame: the method in it, unless it is malformed, or in several frames."""
        if isinstance(frame, Amqp010Frame):
            return self._take_amqp010(sender, frame)
        if frame.kind == HEARTBEAT:
            return None
        self.counts[sender] += 1
        if frame.kind != METHOD:
            return None
        try:
            method: Method = frame.method
        except ProtocolError:
            return None
        if method.name in _IS_REQUEST:
            self._note(sender, method)
        return method

    def _take_amqp010(self, sender: Peer, frame: Amqp010Frame) -> Method | None:
        if frame.index == _HEARTBEAT:
            return None
        self.counts[sender] += 1
        if frame.index < 0 or not frame.is_whole_segment:
            return None
        try:
            method: Method = frame.method
        except Amqp010Error:
            return None
        if frame.index == _REQUEST_TIMEOUT or (frame.kind == COMMAND and frame.index not in _NO_REQUESTS):
            self._note(sender, method)
        return method

    def _note(self, sender: Peer, method: Method) -> None:
        if len(self._requests) < MAX_REQUESTS:
            # The trace gives back the very method that it was given, which is kept here meanwhile.
            self._requests[id(method)] = (self.counts[sender], method)

    def place_of(self, request: CommandMethod, sender: Peer) -> int:
        """The number of the frame that an answered request was in; that of the latest where it is not known."""
        found = self._requests.pop(id(request), None)
        return self.counts[sender] if found is None else found[0]
