"""The 0-9-1 passage without rules: forwards all received bytes unchanged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.frame import METHOD, Frame, every_frame
from amqproxy.amqp091.frame_reader import EVERY_METHOD
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.proxy.amqp091.stateful import STATEFUL
from amqproxy.proxy.session.passage import NothingWaits
from amqproxy.rules.client_info import updated_client
from amqproxy.rules.context import Client
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from amqproxy.taps.note import NOTHING, Note


class PassThrough(NothingWaits):
    """A `Passage` without rules.

    `legs` are the session's; `client` is the client as known before the first frame. Each method that matters to the
    session itself is added to `met`, with its sender. If it `is_tapped`, all forwarded bytes are shown to taps, in
    chunks that are parsed into frames only when a tap asks for them.
    """

    __slots__ = (
        "_client",
        "_legs",
        "_met",
        "_output",
        "_passed",
        "_sender",
        "answers",
        "gate",
        "is_draining",
        "is_tapped",
        "relays_unseen",
    )

    def __init__(
        self,
        legs: Mapping[Peer, Amqp091Leg],
        client: Client,
        met: list[tuple[Peer, Method]],
        *,
        is_tapped: bool = False,
    ) -> None:
        self._legs = legs
        self._client = client
        self._met = met
        self.is_tapped = is_tapped
        self._sender = CLIENT
        self._output: bytes | memoryview = b""
        self._passed: Sequence[Frame] = ()
        self.answers: Callable[[Peer, Frame], bool] | None = None
        """Whether the proxy answers a frame that changes the connection, which is then not forwarded."""
        self.gate: Callable[[Peer, Frame], bool] | None = None
        self.is_draining = False
        self.relays_unseen = True

    @property
    def first_known(self) -> Client:
        """The client as known before its first frame."""
        return self._client

    @property
    def client(self) -> Client:
        connection = self._legs[CLIENT].connection
        known = updated_client(self._client, connection.client) if connection.client is not None else self._client
        return msgspec.structs.replace(known, vhost=connection.virtual_host)

    @property
    def shown_client(self) -> Client:
        return self.client

    def learn(self, *, identity: str = "", upstream: str = "") -> None:
        self._client = self._client.learned(identity=identity, upstream=upstream)

    def ask_for_frames(self) -> None:
        """Make the readers hand over the methods that change the connection state, or all frames for a gate."""
        self.relays_unseen = self.gate is None
        for peer in (CLIENT, SERVER):
            leg = self._legs[peer]
            leg.connection.readers[CLIENT].set_lenient(True)  # errors in a content are left to the broker to answer
            wants_all = self.gate is not None
            leg.reader.want(EVERY_METHOD if wants_all else STATEFUL[peer], content=wants_all)

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        """Show both legs the frames that change the connection state.

        Raises `ProtocolError` at the first frame that is not allowed; those before it have passed by then.
        """
        leg, gate, answers = self._legs[sender], self.gate, self.answers
        reader, source, target = leg.reader, leg.connection, self._legs[sender.other].connection
        passed: list[Frame] = []
        answered: list[Frame] = []
        end = reader.offset
        try:
            for frame in frames:
                counts = self._counts(sender, frame)
                if counts:
                    _show(source, sender, frame)
                if answers is not None and answers(sender, frame):
                    answered.append(frame)
                    continue
                if gate is None or gate(sender, frame):
                    if counts:
                        _show(target, sender, frame)
                    passed.append(frame)
                if counts and frame.kind == METHOD:
                    self._met.append((sender, frame.method))
        except ProtocolError:
            end = frame.offset
            raise
        finally:
            self._sender = sender
            if gate is not None:
                self._output = b"".join([frame.raw for frame in passed])
            elif answered:
                self._output = _without(
                    answered, memoryview(reader.taken)[: end - reader.taken_from], reader.taken_from
                )
            elif end == reader.offset:
                self._output = reader.taken
            else:
                self._output = memoryview(reader.taken)[: end - reader.taken_from]
            if self.is_tapped:
                data = self._output if isinstance(self._output, bytes) else bytes(self._output)
                count = reader.taken_frames if end == reader.offset else -1
                if gate is None and answered:
                    self._passed = every_frame(data, reader.taken_from)
                else:
                    self._passed = (
                        passed if gate is not None else Amqp091Chunk(data, reader.taken_from, count) if data else ()
                    )

    def take_output(self, to: Peer) -> bytes | memoryview:
        if to is self._sender:
            return b""
        output, self._output = self._output, b""
        return output

    def unshown_publishes(self, number: int) -> int:
        """Return 0: no publish waits."""
        return 0

    def take_passed(self, sender: Peer) -> Sequence[tuple[Note, Sequence[Frame]]]:
        if sender is not self._sender or not self._passed:
            return ()
        passed, self._passed = self._passed, ()
        return ((NOTHING, passed),)

    def _counts(self, sender: Peer, frame: Frame) -> bool:
        """Whether the frame affects the legs' state, which frames handed over only for a tap or a gate never do.

        After the client has been sent connection.close, the legs no longer agree on channels: the broker then checks
        what is sent on them.
        """
        if self.is_draining:
            return frame.channel == 0
        return not frame.is_in_order or (frame.kind == METHOD and STATEFUL[sender][frame.index] != 0)

    def end(self) -> None:
        """Return without effect: a pass-through keeps nothing."""


def _without(answered: list[Frame], data: memoryview, start: int) -> bytes:
    """Return the bytes from the offset `start` on without these frames."""
    pieces = []
    at = start
    for frame in answered:
        pieces.append(data[at - start : frame.offset - start])
        at = frame.offset + frame.length()
    pieces.append(data[at - start :])
    return b"".join(pieces)


def _show(connection: Connection, sender: Peer, frame: Frame) -> None:
    """Show a frame to a leg; errors that concern only its channel are left to the broker to answer."""
    try:
        connection.receive(sender, frame)
    except ProtocolError as error:
        if error.scope is Scope.CONNECTION:
            raise
