"""Assembly of the commands of one connection from decoded frames."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from amqproxy.capture.decoded import Decoded, DecodedFrames, DecodedProtocolHeader, SkippedBytes, StreamEnded
from amqproxy.taps.note import NOTHING, Note
from amqproxy.views.passed_command import PassedCommand, PassedKind

Place = tuple[str, int, int, str]
"""The place of a command: sender, channel, track (0 in 0-9-1), and the leg of its note."""

_LEGS = ("", "client", "upstream")


class Partial(NamedTuple):
    """An incomplete command: the time of its latest frame, its note, and its content so far."""

    ts_ns: int
    note: Note
    content: Any


class CommandAssembler:
    """Assembler of a connection's commands; each protocol whose frames are assembled derives one."""

    protocol = ""

    def __init__(self, stream: int, connection: str, body: int) -> None:
        self._stream = stream
        self._connection = connection
        self._body = body
        self._leg = ""
        self._note = NOTHING
        self._is_closed = False
        self._partial: dict[Place, Partial] = {}

    def feed(self, decoded: Decoded) -> Iterator[PassedCommand]:
        self._leg = decoded.leg
        self._note = NOTHING
        match decoded:
            case DecodedFrames():
                self._note = decoded.note
                yield from self._take_frames(decoded)
            case DecodedProtocolHeader():
                yield self._new(
                    PassedKind.PROTOCOL_HEADER, decoded.ts_ns, decoded.sender, text=decoded.protocol or "unknown"
                )
            case SkippedBytes():
                yield from self.cut(decoded.sender)
                lost = f", {decoded.lost} bytes lost" if decoded.lost else ""
                text = f"{decoded.code or ''} {decoded.reason}{lost}".strip()
                yield self._new(PassedKind.ERROR, decoded.ts_ns, decoded.sender, decoded.channel, text=text)
            case StreamEnded():
                yield from self.cut()
                yield self._new(PassedKind.END, decoded.ts_ns, "", text="" if self._is_closed else decoded.reason)

    def cut(self, sender: str | None = None) -> list[PassedCommand]:
        """Return the incomplete commands of one side or of both as cut, since nothing more can follow."""
        places = [place for place in self._partial if sender in (None, place[0])]
        return [each for place in places for each in self._cut(place)]

    def _take_frames(self, decoded: DecodedFrames) -> Iterator[PassedCommand]:
        """Yield the commands that these frames complete, or cut."""
        raise NotImplementedError

    def _fields(self, content: Any) -> Mapping[str, Any]:
        """Return the fields of a command that come from its content."""
        raise NotImplementedError

    def _open(self, sender: str, channel: int, track: int = 0) -> list[Place]:
        """Return the open commands that the next frame may belong to: one per leg, if it passed on both."""
        leg = self._note.leg
        places = [(sender, channel, track, each) for each in (("", leg) if leg else _LEGS)]
        return [place for place in places if place in self._partial]

    def _cut(self, place: Place) -> Iterator[PassedCommand]:
        if self._partial[place].content.method is None:
            del self._partial[place]
        else:
            yield self._finished(PassedKind.CUT_COMMAND, place)

    def _finished(self, kind: PassedKind, place: Place) -> PassedCommand:
        """Remove and return a command with its content so far."""
        ts_ns, note, content = self._partial.pop(place)
        fields = self._fields(content)
        return self._new(kind, ts_ns, *place[:2], note=note, method=content.method, body=content.body, **fields)

    def _new(
        self, kind: PassedKind, ts_ns: int, sender: str, channel: int | None = None, **fields: Any
    ) -> PassedCommand:
        return PassedCommand(
            kind=kind,
            ts_ns=ts_ns,
            stream=self._stream,
            connection=self._connection,
            sender=sender,
            channel=channel,
            leg=self._leg,
            note=fields.pop("note", self._note),
            **fields,
        )
