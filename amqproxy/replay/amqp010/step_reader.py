"""Steps of one recorded 0-10 connection, from a decoded capture."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.controls import ConnectionHeartbeat
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.protocol_header import NAME
from amqproxy.capture.amqp010.decoded_frames import Amqp010DecodedFrames
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.peer import Peer
from amqproxy.replay.amqp010.assembly_sent import AssemblySent
from amqproxy.replay.step_reader import StepReader
from amqproxy.replay.steps import BytesLost


class Amqp010StepReader(StepReader):
    """Step reader of one 0-10 connection; malformed or incomplete commands count as lost bytes."""

    def __init__(self, stream: int, connection: str, numbers: Iterator[int]) -> None:
        super().__init__(stream, connection, numbers)
        self._readers: dict[tuple[Peer, int], AssemblyReader] = {}

    def _skip(self, skipped: SkippedBytes) -> None:
        sender = Peer(skipped.sender)
        for place in [place for place in self._readers if place[0] is sender]:
            del self._readers[place]
        self._add_lost(skipped.ts_ns, sender, skipped.lost, skipped.reason)

    def _add_lost(self, ts_ns: int, sender: Peer, lost: int, reason: str) -> None:
        self._add(BytesLost, ts_ns, sender=sender, lost=lost, reason=reason, protocol=NAME)

    def _take_packet(self, decoded: Amqp010DecodedFrames) -> None:
        sender = Peer(decoded.sender)
        for frame, command_id in zip(decoded.frames, decoded.command_ids, strict=True):
            if frame.index != ConnectionHeartbeat.index:
                self._take(sender, frame, command_id, decoded.ts_ns)

    def _take(self, sender: Peer, frame: Frame, command_id: int | None, ts_ns: int) -> None:
        place = (sender, frame.channel)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = AssemblyReader()
        try:
            assembly = reader.add(frame)
        except ProtocolError as error:
            self._add_lost(ts_ns, sender, frame.size, error.text)
            return
        if assembly is not None:
            self._add(AssemblySent, ts_ns, sender=sender, command=assembly, command_id=command_id)
