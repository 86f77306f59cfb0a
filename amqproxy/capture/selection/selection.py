"""Selection of a capture's traffic by connection, channel and time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes
from amqproxy.capture.selection.conversation import Conversation
from amqproxy.capture.selection.session_legs import SessionLegs
from amqproxy.capture.selection.time_window import TimeWindow


class Selection:
    """The selection: one conversation, or all; within a time window, or at any time.

    `channel` is the only selected channel, or None. With `legs`, both connections of a session belong together.
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
        """Whether a conversation is followed."""
        return self._conversation is not None

    def connections(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the traffic of the selected connections, on any channel and at any time."""
        if self._window is not None:
            decoded = self._window.begun(decoded)
        if self._legs is not None:
            decoded = self._legs.noted(decoded)
        if self._conversation is not None:
            decoded = self._conversation.followed(decoded, self._legs)
        return iter(decoded)

    def client_stream(self, stream: int) -> int | None:
        """Return the client-leg stream of the session of an upstream-leg stream; None if unknown."""
        return None if self._legs is None else self._legs.client_stream(stream)

    def numbered(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the traffic of a session's upstream leg under the number of its client's, which log and dashboard have.

        The number has to be changed last: until then, it tells the two connections apart.
        """
        if self._legs is None:
            return iter(decoded)
        return map(self._with_session_number, decoded)

    def _with_session_number(self, each: Decoded) -> Decoded:
        number = self.client_stream(each.stream)
        return each if number is None else msgspec.structs.replace(each, stream=number)

    def shows(self, ts_ns: int, channel: int | None) -> bool:
        """Whether a time and channel of these connections are selected; the connection's own channel is None or 0."""
        if self.channel is not None and (channel or 0) != self.channel:
            return False
        return self._window is None or self._window.holds(ts_ns)

    def narrowed(self, decoded: Iterable[Decoded]) -> Iterator[Decoded]:
        """Yield the selected part of these connections' traffic; unreadable bytes may belong to any channel."""
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
