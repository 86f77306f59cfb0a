"""The 0-10 passage without rules: forwards all received bytes unchanged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from amqproxy.amqp010.assembly import AssemblyReader
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.errors import ProtocolError, Scope
from amqproxy.amqp010.frame import CONTROL, Frame, chosen
from amqproxy.amqp010.frame_reader import EVERY_METHOD
from amqproxy.amqp010.methods import Method
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp010.stateful import STATEFUL
from amqproxy.proxy.session.passage import NothingWaits
from amqproxy.rules.amqp010.client_info import updated_amqp010_client
from amqproxy.rules.context import Client
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.note import NOTHING, Note


def _saw_nothing(sender: Peer, data: bytes | memoryview) -> None:
    """Ignore the bytes: they are not counted."""


def _ignore(sender: Peer, error: ProtocolError) -> None:
    """Ignore the violation."""


class Amqp010PassThrough(NothingWaits):
    """A 0-10 `Passage` without rules.

    `client` is the client as known before the first frame. `saw` is called with the bytes of all frames of a sender,
    before they pass; `on_violation` with the first disallowed control of class connection: after that, the legs'
    connection states are not updated any more. `numberings` have the ids of commands, by their sender.

    Except for taps and a gate, which need all frames, the readers hand over only frames that change the connection.
    """

    must_read = False
    relays_unseen = False

    def __init__(
        self,
        legs: Mapping[Peer, Amqp010Leg],
        client: Client,
        met: list[tuple[Peer, int, Method]],
        saw: Callable[[Peer, bytes | memoryview], None] = _saw_nothing,
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
        self._passed: dict[Peer, Amqp010Chunk | None] = dict.fromkeys(Peer)
        self._partial: dict[tuple[Peer, int], AssemblyReader] = {}
        self._is_lost = False
        self.gate: Callable[[Peer, Frame], bool] | None = None
        self.ask_for_frames()

    def ask_for_frames(self, *, all_of_them: bool = False) -> None:
        """Subscribe the readers to the frames that are needed: all, for taps and a gate."""
        wants_all = all_of_them or self.is_tapped or self.gate is not None
        for leg in self._legs.values():
            leg.reader.want(EVERY_METHOD if wants_all else STATEFUL, content=wants_all)

    @property
    def is_followed(self) -> bool:
        """Whether the legs' connection states are up to date."""
        return not self._is_lost

    @property
    def shown_client(self) -> Client:
        return self.client

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        reader = self._legs[sender].reader
        data, offset = reader.taken, reader.taken_from
        if self.gate is not None:
            frames = self._let_by(sender, frames, self.gate)
            data, offset = b"".join([frame.raw for frame in frames]), frames[0].offset if frames else 0
        ids: list[int | None] = []
        if self.is_tapped:
            ids = self.numberings[sender].numbers(frames)
        else:
            self.numberings[sender].pass_over(data)
        for frame in chosen(frames, STATEFUL):
            self._note(sender, frame)
        self._saw(sender, data)
        self._output[sender.other] = data
        if self.is_tapped and data:
            self._passed[sender] = Amqp010Chunk(bytes(data), offset, ids)

    def _let_by(self, sender: Peer, frames: list[Frame], passes: Callable[[Peer, Frame], bool]) -> list[Frame]:
        """Return the frames that a gate lets pass; others are shown to the sender's leg if they change its state."""
        passing = []
        for frame in frames:
            if passes(sender, frame):
                passing.append(frame)
            elif frame.kind == CONTROL and _counts(frame):
                with suppress(ProtocolError):
                    self._legs[sender].connection.receive(sender, frame)
        return passing

    def _note(self, sender: Peer, frame: Frame) -> None:
        """Update the state that a frame changes. Errors in a session are left to the broker to answer."""
        if frame.kind == CONTROL and not self._is_lost:
            try:
                for peer in (CLIENT, SERVER):
                    _show(self._legs[peer].connection, sender, frame)
            except ProtocolError as error:
                self._is_lost = True
                self._on_violation(sender, error)
        try:
            method = self._method(sender, frame)
        except ProtocolError:  # left to the broker to answer
            return
        if method is None:
            return
        if sender is CLIENT:
            self.client = updated_amqp010_client(self.client, method)
        self._met.append((sender, frame.channel, method))

    def _method(self, sender: Peer, frame: Frame) -> Method | None:
        """Return the control completed by a frame, or the command entirely contained in it."""
        if frame.is_whole_segment:
            return frame.method if frame.index >= 0 else None
        if frame.kind != CONTROL:
            return None
        place = sender, frame.channel
        reader = self._partial.pop(place, None) or AssemblyReader()
        if not frame.ends_assembly:
            self._partial[place] = reader
        assembly = reader.add(frame)
        return None if assembly is None else assembly.method

    def learn(self, *, identity: str = "", upstream: str = "") -> None:
        self.client = self.client.learned(identity=identity, upstream=upstream)

    def take_output(self, to: Peer) -> bytes | memoryview:
        output, self._output[to] = self._output[to], b""
        return output

    def take_passed(self, sender: Peer) -> Sequence[tuple[Note, Amqp010Chunk]]:
        passed, self._passed[sender] = self._passed[sender], None
        return () if passed is None else ((NOTHING, passed),)

    def unshown_from(self, number: int) -> float:
        """Return infinity: no command waits."""
        return math.inf

    def end(self) -> None:
        """Release all references, and subscribe the readers to all frames for the next passage."""
        self._on_violation = _ignore
        self.gate = None
        self.ask_for_frames(all_of_them=True)


def _counts(frame: Frame) -> bool:
    """Whether a frame of a control or command changes the legs' state."""
    return bool(STATEFUL[frame.index]) if frame.index >= 0 else frame.kind == CONTROL


def _show(connection: Connection, sender: Peer, frame: Frame) -> None:
    try:
        connection.receive(sender, frame)
    except ProtocolError as error:
        if error.scope is Scope.CONNECTION:
            raise
