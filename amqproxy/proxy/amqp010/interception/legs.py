"""Both legs of a session of AMQP 0-10: what each is sent, what taps see of it, and what each leg's connection knows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.command_ids import id_of
from amqproxy.amqp010.command_numbering import CommandNumbering
from amqproxy.amqp010.commands import ExecutionException
from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import SessionDetach
from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.errors import ProtocolError, ResourceLimitExceeded, Scope
from amqproxy.amqp010.frame import BODY, Frame
from amqproxy.amqp010.methods import BY_INDEX, Method
from amqproxy.amqp010.session import Session
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.encoding import damaged, encoded, fitting
from amqproxy.proxy.amqp010.interception.path import Path
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.note import LEGS, NOTHING, Note

_ENDS = ("session.attach", "session.attached", "session.detach", "session.detached", "execution.exception")
_COUNTS = frozenset(
    cls.index
    for cls in BY_INDEX
    if cls.name in _ENDS or (cls.name.startswith("connection.") and cls.name != "connection.heartbeat")
)
"""What counts for the session itself."""

Met = Callable[[Peer, int, Method], None]
Saw = Callable[[Peer, bytes], None]


class Legs:
    """The `connections`, by the peer at their other end.

    Once it `is_over`, both peers have been sent connection.close. `met` is called with each method of the connection's
    own that passes, and with what attaches and ends sessions; `saw` with the bytes of all frames that the client sends
    or is sent, of whose commands `numberings` have the ids.
    """

    def __init__(
        self,
        connections: Mapping[Peer, Connection],
        met: Met,
        saw: Saw,
        *,
        is_tapped: bool,
        numberings: Mapping[Peer, CommandNumbering] | None = None,
    ) -> None:
        self.connections = connections
        self.met = met
        self.is_tapped = is_tapped
        self.is_over = False
        self._saw = saw
        self._outputs: dict[Peer, list[bytes]] = {peer: [] for peer in Peer}
        self._passed: dict[Peer, list[tuple[Note, Amqp010Chunk]]] = {peer: [] for peer in Peer}
        self.numberings = numberings or {peer: CommandNumbering() for peer in Peer}

    def take_output(self, to: Peer) -> bytes:
        """All that is to be sent to a peer now."""
        output, self._outputs[to] = self._outputs[to], []
        return output[0] if len(output) == 1 else b"".join(output)

    @property
    def is_transparent(self) -> bool:
        """Does what goes from one to the other fit as it is, and is nothing left to be sent?"""
        client, server = (self.connections[peer] for peer in Peer)
        return client.frame_max == server.frame_max and not any(self._outputs.values())

    def take_passed(self, sender: Peer) -> list[tuple[Note, Amqp010Chunk]]:
        """What taps are to see of `sender`."""
        passed, self._passed[sender] = self._passed[sender], []
        return passed

    # --- what is known of sessions

    def session(self, leg: Peer, number: int) -> Session | None:
        """The session on a channel, as a leg knows it."""
        channel = self.connections[leg].channels.get(number)
        return None if channel is None else channel.session

    def next_position(self, leg: Peer, sender: Peer, number: int) -> int | None:
        """The position of the next command of `sender`, as it is counted on a leg."""
        channel = self.connections[leg].channels.get(number)
        session = None if channel is None else channel.sessions[sender]
        return None if session is None else session.streams[sender].next

    def near(self, leg: Peer, sender: Peer, number: int) -> int:
        """A position close to what `sender` sends now, as it is counted on a leg."""
        session = self.session(leg, number)
        stream = None if session is None else session.streams[sender]
        return 0 if stream is None else stream.next or stream.seen or 0

    # --- frames

    def receive(self, leg: Peer, sender: Peer, frame: Frame) -> None:
        """Show a leg a frame. What is wrong in a session only is for its receiver to answer.

        Of a body, it is shown the last frame only: it would keep all of them.
        """
        if frame.kind == BODY and not frame.ends_assembly:
            return
        try:
            self.connections[leg].receive(sender, frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION or isinstance(error, ResourceLimitExceeded):
                raise

    def count(self, sender: Peer, frames: Sequence[Frame]) -> None:
        """Have counted what the client sends, or is sent."""
        data = b"".join([frame.raw for frame in frames])
        self.numberings[sender].pass_over(data)
        self._saw(sender, data)

    def send(
        self,
        path: Path,
        frames: Sequence[Frame],
        note: Note = NOTHING,
        *,
        is_shown: bool = True,
        damage: tuple[tuple[int, int], ...] = (),
    ) -> None:
        """Send frames that a peer has sent on a path to the other one."""
        sender = path.sender
        to = sender.other
        output = self._outputs[to]
        if is_shown:
            self.show(sender, frames, note, path.position)
        frames = fitting(frames, self.connections[to].frame_max)
        if to is CLIENT:
            self.count(SERVER, frames)
        for frame in frames:
            self.receive(to, sender, frame)
            output.append(damaged(frame.raw, damage) if damage else frame.raw)
            damage = ()
            if frame.track == Track.COMMAND:
                path.is_mid = not frame.ends_assembly
            if frame.index in _COUNTS and frame.is_whole_segment:
                self.met(sender, frame.channel, frame.method)

    def send_own(self, peer: Peer, number: int, method: Method) -> None:
        """Send a control or command of our own to a peer, on a channel, in the place of the other one."""
        self.send_own_assembly(peer, Assembly(number, method))

    def send_own_assembly(self, peer: Peer, assembly: Assembly) -> None:
        """The same, with its header and body."""
        frames = encoded(assembly, self.connections[peer].frame_max)
        position = self.next_position(peer, peer.other, assembly.channel) or 0
        if peer is CLIENT:
            self.count(SERVER, frames)
        for frame in frames:
            self.receive(peer, peer.other, frame)
            self._outputs[peer].append(frame.raw)
        if peer is CLIENT and isinstance(assembly.method, (ExecutionException, SessionDetach)):
            self.met(SERVER, assembly.channel, assembly.method)  # to the client, it is the broker's
        self.show(peer.other, frames, Note(leg=LEGS[peer]), position)

    def show(self, sender: Peer, frames: Sequence[Frame], note: Note, position: int = 0) -> None:
        """Let taps see frames of one control, or of the command at this position."""
        if frames and self.is_tapped:
            ids = [id_of(position) if frame.track == Track.COMMAND else None for frame in frames]
            data = b"".join([frame.raw for frame in frames])
            self._passed[sender].append((note, Amqp010Chunk(data, frames[0].offset, ids)))
