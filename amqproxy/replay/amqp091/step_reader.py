"""Steps of one recorded 0-9-1 connection, from a decoded capture."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.commands import Command, CommandReader
from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import BY_INDEX
from amqproxy.amqp091.protocol_header import NAME
from amqproxy.amqp091.transitions import Peer
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.replay.step_reader import StepReader
from amqproxy.replay.steps import BytesLost, BytesSent, CommandSent


class Amqp091StepReader(StepReader):
    """Step reader of one 0-9-1 connection."""

    def __init__(self, stream: int, connection: str, numbers: Iterator[int]) -> None:
        super().__init__(stream, connection, numbers, on_frame=self._take)
        self._readers: dict[tuple[Peer, int], CommandReader] = {}
        self._partial: dict[tuple[Peer, int], list[Frame]] = {}
        """Frames of incomplete contents."""
        self._gaps: set[Peer] = set()
        """Peers of whose bytes the capture lacks some."""

    def _skip(self, skipped: SkippedBytes) -> None:
        sender = Peer(skipped.sender)
        if skipped.data and skipped.protocol == NAME:
            for _, channel in [place for place in self._partial if place[0] is sender]:
                self._cut(sender, channel, skipped.ts_ns)
            self._add(
                BytesSent, skipped.ts_ns, sender=sender, data=skipped.data, reason=skipped.reason, code=skipped.code
            )
            return
        self._gaps.add(sender)
        for place in [place for place in self._partial if place[0] is sender]:
            del self._partial[place]  # the rest of these contents may be among the lost bytes
        self._add(BytesLost, skipped.ts_ns, sender=sender, lost=skipped.lost, reason=skipped.reason)

    def _take(self, sender: Peer, frame: Frame, ts_ns: int) -> None:
        if frame.kind == HEARTBEAT:
            return
        place = (sender, frame.channel)
        partial = self._partial.get(place)
        if frame.kind == METHOD:
            if partial is not None:
                self._cut(sender, frame.channel, ts_ns)
            if not BY_INDEX[frame.index].carries_content:
                self._add(CommandSent, ts_ns, sender=sender, command=Command.received([frame]))
                return
            partial = self._partial[place] = []
        elif partial is None or frame.kind != (HEADER if len(partial) == 1 else BODY):
            self._stray(sender, frame, ts_ns)
            return
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = CommandReader()
        partial.append(frame)
        try:
            command = reader.add(frame)
        except ProtocolError:
            self._cut(sender, frame.channel, ts_ns)
            return
        if command is not None:
            del self._partial[place]
            self._add(CommandSent, ts_ns, sender=sender, command=command)

    def _cut_all(self, ts_ns: int) -> None:
        for sender, channel in list(self._partial):
            self._cut(sender, channel, ts_ns)

    def _stray(self, sender: Peer, frame: Frame, ts_ns: int) -> None:
        """Report an unexpected header or body: the sender's mistake, unless the content's beginning may be lost."""
        reason = "a content whose beginning is not there"
        if sender in self._gaps:
            self._add(BytesLost, ts_ns, sender=sender, lost=frame.size, reason=reason)
        else:
            self._add(BytesSent, ts_ns, sender=sender, data=frame.raw, reason=reason)

    def _cut(self, sender: Peer, channel: int, ts_ns: int) -> None:
        """Report a content without its end."""
        frames = self._partial.pop((sender, channel))
        reason = "a content that is not whole"
        if sender in self._gaps:
            self._add(BytesLost, ts_ns, sender=sender, lost=sum(frame.size for frame in frames), reason=reason)
        else:
            data = b"".join([frame.raw for frame in frames])
            self._add(BytesSent, ts_ns, sender=sender, data=data, reason=reason)
