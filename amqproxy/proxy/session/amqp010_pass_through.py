"""What stands between the two legs of a session of AMQP 0-10 without rules: all passes, as the bytes received."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.errors import ProtocolError, Scope
from amqproxy.amqp010.frame import CONTROL, Frame, chosen
from amqproxy.amqp010.methods import Method
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010_client_info import updated_client
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.stateful import AMQP010_STATEFUL
from amqproxy.rules.context import Client
from amqproxy.taps.amqp010_chunk import AMQP010Chunk
from amqproxy.taps.note import NOTHING, Note


def _saw_nothing(sender: Peer, frames: list[Frame], ids: Sequence[int | None]) -> None:
    """Nothing is counted."""


def _ignore(sender: Peer, error: ProtocolError) -> None:
    """Nothing is noted."""


class AMQP010PassThrough:
    """An `AMQP010Passage` without rules.

    `client` is what was known before the first frame. `saw` is called with all frames of a sender and the ids of their
    commands, before they pass; `on_violation` with the first control of the connection's own that may not come: from
    there on, the legs' connections stay as they are. `numberings` have the ids of commands, by their sender.
    """

    must_read = False
    refusal = None

    def __init__(
        self,
        legs: Mapping[Peer, AMQP010Leg],
        client: Client,
        met: list[tuple[Peer, int, Method]],
        saw: Callable[[Peer, list[Frame], Sequence[int | None]], None] = _saw_nothing,
        on_violation: Callable[[Peer, ProtocolError], None] = _ignore,
        *,
        is_tapped: bool = False,
        numberings: Mapping[Peer, CommandNumbering] | None = None,
    ) -> None:
        self._legs = legs
        self.client = client
        self._met = met
        self._saw = saw
        self._on_violation = on_violation
        self.is_tapped = is_tapped
        self.numberings = numberings or {peer: CommandNumbering() for peer in Peer}
        self._output: dict[Peer, bytes | memoryview] = dict.fromkeys(Peer, b"")
        self._passed: dict[Peer, AMQP010Chunk | None] = dict.fromkeys(Peer)
        self._is_lost = False
        self.gate: Callable[[Peer, Frame], bool] | None = None

    @property
    def is_followed(self) -> bool:
        """Do the legs' connections know what has passed?"""
        return not self._is_lost

    @property
    def shown_client(self) -> Client:
        return self.client

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        if self.gate is not None:
            self._take_gated(sender, frames, self.gate)
            return
        ids = self._see(sender, frames)
        reader = self._legs[sender].reader
        output = self._output[sender.other] = reader.taken
        if self.is_tapped and output:
            self._passed[sender] = AMQP010Chunk(bytes(output), reader.taken_from, ids)

    def _see(self, sender: Peer, frames: list[Frame]) -> list[int | None]:
        """Take note of frames that pass: the ids of their commands."""
        ids = self.numberings[sender].numbers(frames)
        for frame in chosen(frames, AMQP010_STATEFUL):
            self._note(sender, frame)
        self._saw(sender, frames, ids)
        return ids

    def _take_gated(self, sender: Peer, frames: list[Frame], passes: Callable[[Peer, Frame], bool]) -> None:
        """The same, while some frames go no further."""
        passing = []
        for frame in frames:
            if passes(sender, frame):
                passing.append(frame)
            elif frame.kind == CONTROL and _counts(frame):
                with suppress(ProtocolError):
                    self._legs[sender].connection.receive(sender, frame)
        ids = self._see(sender, passing)
        output = self._output[sender.other] = b"".join([frame.raw for frame in passing])
        if self.is_tapped and output:
            self._passed[sender] = AMQP010Chunk(output, passing[0].offset, ids)

    def _note(self, sender: Peer, frame: Frame) -> None:
        """Note what a frame changes. What is wrong in a session only is for the broker to answer."""
        if frame.kind == CONTROL and not self._is_lost:
            try:
                for peer in (CLIENT, SERVER):
                    _show(self._legs[peer].connection, sender, frame)
            except ProtocolError as error:
                self._is_lost = True
                self._on_violation(sender, error)
        if not frame.is_whole_segment or frame.index < 0:
            return
        try:
            method: Method = frame.method
        except ProtocolError:  # the broker answers that
            return
        if sender is CLIENT:
            self.client = updated_client(self.client, method)
        self._met.append((sender, frame.channel, method))

    def take_output(self, to: Peer) -> bytes | memoryview:
        output, self._output[to] = self._output[to], b""
        return output

    def take_passed(self, sender: Peer) -> Sequence[tuple[Note, AMQP010Chunk]]:
        passed, self._passed[sender] = self._passed[sender], None
        return () if passed is None else ((NOTHING, passed),)

    def is_full(self, sender: Peer) -> bool:
        return False

    def end(self) -> None:
        """Nothing is kept: nor what refers to this."""
        self._on_violation = _ignore
        self.gate = None


def _counts(frame: Frame) -> bool:
    """Does a control's or a command's frame change what the legs know?"""
    return bool(AMQP010_STATEFUL[frame.index]) if frame.index >= 0 else frame.kind == CONTROL


def _show(connection: Connection, sender: Peer, frame: Frame) -> None:
    try:
        connection.receive(sender, frame)
    except ProtocolError as error:
        if error.scope is Scope.CONNECTION:
            raise
