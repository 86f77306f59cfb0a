"""The events of one connection until its trace returns them, and its listener."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.events import ChannelClosed, ConnectionClosed, TraceEvent

Listener = Callable[[Sequence[TraceEvent], Peer | None, int], None]
"""Takes events and the frame that they came with: its sender, and its number among the sender's; see `EventQueue`."""


class EventQueue:
    """What happens is appended to `events`, by all parts of a trace, and taken at the end of each call.

    A listener is shown events before: those of a frame after that frame, while the trace is as it has left it. So what
    it sees does not depend on which frames are fed together. Frames are numbered from 1 for each sender, without
    heartbeats; events that no frame has caused come with no sender, and 0.
    """

    __slots__ = ("_ended", "_listener", "_numbers", "_shown", "events")

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._listener: Listener | None = None
        self._shown = 0
        self._ended = 0
        self._numbers = {CLIENT: 0, SERVER: 0}

    def listen(self, listener: Listener) -> None:
        """Show events to `listener` from here on."""
        self._listener = listener

    def end_frame(self, sender: Peer, *, is_heartbeat: bool, is_by_proxy: bool = False) -> None:
        """A frame of `sender`, or of the proxy in its name, has been taken, and what it has caused is there."""
        if is_by_proxy:
            self._name_proxy()
        self._ended = len(self.events)
        if self._listener is not None:
            self._numbers[sender] += not is_heartbeat
            self._show(self._listener, sender, self._numbers[sender])

    def take(self) -> list[TraceEvent]:
        """All events since this was last called."""
        if self._listener is not None:
            self._show(self._listener, None, 0)
            self._shown = 0
        self._ended = 0
        events = self.events.copy()  # the list itself is that of all parts
        self.events.clear()
        return events

    def _name_proxy(self) -> None:
        """Name the proxy in the closes of the last frame."""
        for place in range(self._ended, len(self.events)):
            event = self.events[place]
            if isinstance(event, ConnectionClosed | ChannelClosed):
                self.events[place] = msgspec.structs.replace(event, is_by_proxy=True)

    def _show(self, listener: Listener, sender: Peer | None, number: int) -> None:
        if len(self.events) > self._shown:
            events = self.events[self._shown :]
            self._shown = len(self.events)
            listener(events, sender, number)
