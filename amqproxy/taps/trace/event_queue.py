"""Queue of one connection's events, up to the call that returns them, and its listener."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.events import ChannelClosed, ConnectionClosed, TraceEvent

Listener = Callable[[Sequence[TraceEvent], Peer | None, int], None]
"""Takes events and the frame that they came with: its sender, and its number among the sender's; see `EventQueue`."""


class EventQueue:
    """Events that all parts of a trace append to `events`; `take` returns them at the end of each call.

    A listener is shown them earlier: the events of each frame right after that frame, while the trace is as the frame
    has left it. So what it sees does not depend on which frames are fed together. Frames are numbered from 1 for each
    sender, without heartbeats; events that no frame has caused come without a sender, and with the number 0.
    """

    __slots__ = ("_listener", "_numbers", "_shown", "ended", "events")

    def __init__(self) -> None:
        self.events: list[TraceEvent] = []
        self._listener: Listener | None = None
        self._shown = 0
        self.ended = 0
        """Number of events up to the end of the last frame."""
        self._numbers = {CLIENT: 0, SERVER: 0}

    @property
    def has_listener(self) -> bool:
        """Whether events are shown to a listener."""
        return self._listener is not None

    def listen(self, listener: Listener) -> None:
        """Show all later events to `listener`."""
        self._listener = listener

    def end_frame(self, sender: Peer, *, is_heartbeat: bool, is_by_proxy: bool = False) -> None:
        """End a frame of `sender`, or of the proxy in its name: show the listener the events that it has caused."""
        if is_by_proxy:
            self._name_proxy()
        self.ended = len(self.events)
        if self._listener is not None:
            self._numbers[sender] += not is_heartbeat
            self._show(self._listener, sender, self._numbers[sender])

    def take(self) -> list[TraceEvent]:
        """Return the events added since the last call, and clear the queue."""
        if self._listener is not None:
            self._show(self._listener, None, 0)
            self._shown = 0
        self.ended = 0
        events = self.events.copy()  # all parts of the trace share the list itself
        self.events.clear()
        return events

    def _name_proxy(self) -> None:
        """Mark the proxy as the closer in the close events of the last frame."""
        for place in range(self.ended, len(self.events)):
            event = self.events[place]
            if isinstance(event, ConnectionClosed | ChannelClosed):
                self.events[place] = msgspec.structs.replace(event, is_by_proxy=True)

    def _show(self, listener: Listener, sender: Peer | None, number: int) -> None:
        if len(self.events) > self._shown:
            events = self.events[self._shown :]
            self._shown = len(self.events)
            listener(events, sender, number)
