"""Frames, which are lines; the reader and the connection of one leg; and the leg."""

from __future__ import annotations

from typing import Any

from amqproxy.amqp091.errors import FrameError, ProtocolError
from amqproxy.peer import Peer
from amqproxy.proxy.leg import Leg
from amqproxy.sockets.transport import Transport

HEADER = b"AMQP\x07\x07\x07\x07"
NAME = "AMQP 7.7.7.7"


class ToyFrame:
    """One line."""

    __slots__ = ("channel", "offset", "raw", "verb", "words")

    def __init__(self, raw: bytes, offset: int = 0) -> None:
        self.raw = raw
        self.offset = offset
        number, self.verb, *self.words = raw.decode().split()
        self.channel = int(number)

    @property
    def is_in_body(self) -> bool:
        return self.verb in ("MORE", "END")

    @property
    def begins_body(self) -> bool:
        return self.verb in ("PUB", "MSG") and self.words[-1] == "+"


def line(channel: int, *words: object) -> ToyFrame:
    return ToyFrame(" ".join(map(str, (channel, *words))).encode() + b"\n")


class ToyReader:
    """Makes frames of bytes."""

    is_paused = False

    def __init__(self) -> None:
        self.quantum = self.frames = self.offset = 0
        self.error: ProtocolError | None = None
        self.held = b""
        self.bodies: set[int] = set()
        """The channels on which a body is not complete."""

    def feed(self, data: bytes) -> list[ToyFrame]:
        *whole, self.held = (self.held + data).split(b"\n")
        found = []
        for text in whole:
            try:
                frame = ToyFrame(text + b"\n", self.offset)
            except ValueError:
                self.error = FrameError("not a line of the toy protocol", offset=self.offset)
                self.error.received = text
                break
            found.append(frame)
            self.offset += len(frame.raw)
            if frame.begins_body:
                self.bodies.add(frame.channel)
            elif frame.verb == "END":
                self.bodies.discard(frame.channel)
        self.frames += len(found)
        return found

    def resume(self) -> list[ToyFrame]:
        return []


class ToyConnection:
    """What both peers of a leg have agreed on."""

    heartbeat = 0

    def __init__(self) -> None:
        self.state = "new"
        self.user = ""
        self.channels: set[int] = set()

    def receive(self, sender: Peer, frame: ToyFrame) -> None:
        match frame.verb:
            case "HELLO":
                self.state, self.user = "opening", frame.words[0]
            case "WELCOME":
                self.state = "open"
            case "BYE":
                self.state = "closed by both" if str(self.state).startswith("closed") else f"closed by {sender}"
            case "BYE-OK":
                self.state = "closed"
            case "CLOSED":
                self.channels.discard(frame.channel)
            case _:
                self.channels.add(frame.channel)

    def note_received(self, sender: Peer, now: float) -> None: ...

    def is_silent(self, sender: Peer, now: float) -> bool:
        return False

    def is_heartbeat_due(self, sender: Peer, now: float) -> bool:
        return False

    def heard(self, sender: Peer, now: float) -> float:
        return now


class ToyLeg(Leg[ToyConnection]):
    """The transport to a peer, and the connection on it."""

    CLOSE_OK = line(0, "BYE-OK").raw

    def __init__(self, peer: Peer, transport: Transport, report: Any) -> None:
        super().__init__(peer, transport, ToyConnection())
        self.reader = ToyReader()
        self._report = report

    def close(self, error: ProtocolError) -> bytes:
        return self._sent(line(0, "BYE", error.code, *error.reply_text.split()))

    def close_ok(self) -> bytes:
        return self._sent(line(0, "BYE-OK"))

    def _sent(self, frame: ToyFrame) -> bytes:
        self.connection.receive(self.peer.other, frame)
        self._show(self.peer.other, frame.raw)
        return frame.raw

    def take_last(self, frame: ToyFrame) -> None:
        if frame.channel == 0:
            self.connection.receive(self.peer, frame)
            self._show(self.peer, frame.raw)

    def _show(self, sender: Peer, data: bytes) -> None:
        self._report.note_own_frames(self.peer, sender, [ToyFrame(data)])
