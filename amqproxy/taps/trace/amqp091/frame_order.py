"""0-9-1 frames seen before those that they answer."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import METHOD, Frame
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.taps.trace.budget import Budget
from amqproxy.taps.trace.held_frames import HeldFrame, HeldFrames


class Missing(NamedTuple):
    """The methods that a frame waits for: `number` with one of these names, from the other peer.

    They are on the channel of the frame, or with `on_any_channel` on any.
    """

    names: frozenset[str]
    number: int = 1
    on_any_channel: bool = False


class FrameOrder(HeldFrames[Frame]):
    """Frames held back until the methods that they answer were seen; `missing` returns those of a peer's next frame.

    `reused` are the numbers of channels that the client has reopened before the broker closed them.
    """

    __slots__ = ("_missing", "_reused")

    def __init__(
        self, budget: Budget, missing: Callable[[Peer, Frame], Missing | None], reused: Container[int]
    ) -> None:
        super().__init__(budget)
        self._missing = missing
        self._reused = reused

    def may_pass(self, sender: Peer, frame: Frame) -> bool:
        return not self.count and (frame.kind != METHOD or self._missing(sender, frame) is None)

    def next(self) -> tuple[Peer, HeldFrame[Frame]] | None:
        client, server = self._held[CLIENT], self._held[SERVER]
        client_waits = server_waits = None
        if client:
            client_waits = self._waits(CLIENT, client[0].frame)
            if client_waits is None and not self._ends_wait(CLIENT):
                return self._take(CLIENT)
        if server:
            server_waits = self._waits(SERVER, server[0].frame)
            if server_waits is None and not self._ends_wait(SERVER):
                return self._take(SERVER)
        if not (client and server):
            return None
        if client_waits is None:  # the client closes the channel on which the broker's next frame waits
            return self._take(SERVER)
        if server_waits is None:
            return self._take(CLIENT)
        if self._is_held(server_waits, server[0].frame.channel, CLIENT):
            return self._take(CLIENT)
        if self._is_held(client_waits, client[0].frame.channel, SERVER):
            return self._take(SERVER)
        return None

    def _is_independent(self, frame: Frame) -> bool:
        if frame.kind != METHOD:
            return True
        try:
            method = frame.method
        except ProtocolError:
            return False
        return method.name not in _DEPENDENT_NAMES and getattr(method, "delivery_tag", 1) != 0

    def _waits(self, sender: Peer, frame: Frame) -> Missing | None:
        return self._missing(sender, frame) if frame.kind == METHOD else None

    def _ends_wait(self, closer: Peer) -> bool:
        """Whether the next frame of `closer` ends the channel on which the other peer's next frame still waits."""
        other = self._held[closer.other]
        if not other:
            return False
        last, waiting = self._held[closer][0].frame, other[0].frame
        name = _name(last)
        if name not in _LAST_NAMES or (last.channel and last.channel != waiting.channel):
            return False
        if last.channel in self._reused:  # the broker closes the previous channel with this number
            return False
        missing = self._waits(closer.other, waiting)
        if missing is None or name in missing.names or (last.channel and "channel.open" in missing.names):
            return False
        return name.endswith("close-ok") or not any(each.endswith("close-ok") for each in missing.names)

    def _is_held(self, missing: Missing, channel: int, sender: Peer) -> bool:
        """Whether the held frames of `sender` on the channel contain the missing methods."""
        count = missing.number
        for each in self._held[sender]:
            frame = each.frame
            if frame.kind == METHOD and (missing.on_any_channel or frame.channel == channel):
                count -= _name(frame) in missing.names
                if not count:
                    return True
        return False


_LAST_NAMES = ("channel.close", "channel.close-ok", "connection.close", "connection.close-ok")
"""Methods after which their sender sends nothing that a frame may wait for, except close-ok."""


_DEPENDENT_NAMES = frozenset(("channel.open", "basic.recover", "basic.recover-async", "tx.rollback", *_LAST_NAMES))
"""Methods whose effect depends on the frames of the other peer before them."""


def _name(frame: Frame) -> str:
    if frame.kind != METHOD:
        return ""
    try:
        return str(frame.method.name)
    except ProtocolError:
        return ""
