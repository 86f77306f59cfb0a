"""What of captures is shown: which connection and channel, and from when until when."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.selection.conversation import Conversation
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.capture.selection.time_window import TimeWindow


class Selection:
    """What is shown: of one conversation, or of all; within a window of time, or at any time.

    `channel` is the only one that is shown, or None. With `legs`, both connections of a session belong together.
    """

    def __init__(
        self,
        conversation: Conversation | None = None,
        window: TimeWindow | None = None,
        legs: SessionLegs | None = None,
    ) -> None:
        self._legs = legs
        self._conversation = conversation
        self._window = window
        self.channel = None if conversation is None else conversation.channel

    @property
    def is_everything(self) -> bool:
        return self._conversation is None and self._window is None

    @property
    def is_conversation(self) -> bool:
        """Is it one that is followed?"""
        return self._conversation is not None

    def connections(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """All that passed on the connections that are shown, on any channel and at any time."""
        if self._window is not None:
            decoded = self._window.begun(decoded)
        if self._legs is not None:
            decoded = self._legs.noted(decoded)
        if self._conversation is not None:
            decoded = self._conversation.followed(decoded, self._legs)
        return iter(decoded)

    def client_stream(self, stream: int) -> int | None:
        """The client's connection of the session of this one, which is to the upstream; None unless that is known."""
        return None if self._legs is None else self._legs.client_stream(stream)

    def shows(self, ts_ns: int, channel: int | None) -> bool:
        """Is what happened then, on a channel of these connections, shown? The connection's own is None or 0."""
        if self.channel is not None and (channel or 0) != self.channel:
            return False
        return self._window is None or self._window.holds(ts_ns)

    def narrowed(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Of what passed on these connections, what is shown. Bytes that could not be read may be of any channel."""
        if self.is_everything:
            return iter(decoded)
        return self._narrowed(decoded)

    def _narrowed(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        channel = self.channel
        for each in decoded:
            if self._window is not None and not self._window.holds(each.ts_ns):
                continue
            if channel is None or (isinstance(each, SkippedBytes) and each.channel is None):
                yield each
            elif isinstance(each, DecodedFrames):
                places = [place for place, frame in enumerate(each.frames) if frame.channel == channel]
                if places:
                    yield each.at(places)
            elif isinstance(each, SkippedBytes):
                if each.channel == channel:
                    yield each
            elif not isinstance(each, DecodedProtocolHeader) or channel == 0:
                yield each
