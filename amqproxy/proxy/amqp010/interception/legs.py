"""Both legs of a 0-10 connection: their state, the output for each peer, and the frames for taps."""

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
from amqproxy.proxy.amqp010.interception.encoding import encoded, fitting
from amqproxy.proxy.amqp010.interception.path import Path
from amqproxy.proxy.interception.actions import damaged
from amqproxy.taps.amqp010.chunk import Amqp010Chunk
from amqproxy.taps.note import LEGS, NOTHING, Note

_ENDS = ("session.attach", "session.attached", "session.detach", "session.detached", "execution.exception")
_COUNTS = frozenset(
    cls.index
    for cls in BY_INDEX
    if cls.name in _ENDS or (cls.name.startswith("connection.") and cls.name != "connection.heartbeat")
)
"""Indexes of the methods that matter to the session itself."""

Met = Callable[[Peer, int, Method], None]
Saw = Callable[[Peer, bytes], None]


class Legs:
    """Both legs; `connections` are by the peer at their other end.

    It `is_over` once a rule ends the connection. `met` is called with each passed method of class connection, and with
    those that attach and end sessions; `saw` with the bytes of all frames that the client sends or is sent, for whose
    commands `numberings` have the ids.
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
        """Take all bytes that are ready to be sent to a peer."""
        output, self._outputs[to] = self._outputs[to], []
        return output[0] if len(output) == 1 else b"".join(output)

    @property
    def is_transparent(self) -> bool:
        """Whether frames fit both legs unchanged, and no output is pending."""
        client, server = (self.connections[peer] for peer in Peer)
        return client.frame_max == server.frame_max and not any(self._outputs.values())

    def take_passed(self, sender: Peer) -> list[tuple[Note, Amqp010Chunk]]:
        """Take the chunks of `sender` to be shown to taps, each with its note."""
        passed, self._passed[sender] = self._passed[sender], []
        return passed

    # --- sessions

    def session(self, leg: Peer, number: int) -> Session | None:
        """Return the session on a channel, as known on a leg."""
        channel = self.connections[leg].channels.get(number)
        return None if channel is None else channel.session

    def next_position(self, leg: Peer, sender: Peer, number: int) -> int | None:
        """Return the position of the next command of `sender`, as counted on a leg."""
        channel = self.connections[leg].channels.get(number)
        session = None if channel is None else channel.sessions[sender]
        return None if session is None else session.streams[sender].next

    def near(self, leg: Peer, sender: Peer, number: int) -> int:
        """Return a position close to the current command of `sender`, as counted on a leg."""
        session = self.session(leg, number)
        stream = None if session is None else session.streams[sender]
        return 0 if stream is None else stream.next or stream.seen or 0

    # --- frames

    def receive(self, leg: Peer, sender: Peer, frame: Frame) -> None:
        """Show a frame to a leg. Errors that concern only a session are left to its receiver to answer.

        Of a body, only the last frame is shown, since the leg would keep all of them.
        """
        if frame.kind == BODY and not frame.ends_assembly:
            return
        try:
            self.connections[leg].receive(sender, frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION or isinstance(error, ResourceLimitExceeded):
                raise

    def count(self, sender: Peer, frames: Sequence[Frame]) -> None:
        """Number and observe the frames that the client sends or is sent."""
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
        """Send frames of a path to the opposite peer."""
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
        """Send a control or command of the proxy to a peer, on a channel, on behalf of the opposite peer."""
        self.send_own_assembly(peer, Assembly(number, method))

    def send_own_assembly(self, peer: Peer, assembly: Assembly) -> None:
        """Send a command with its header and body, like `send_own`."""
        frames = encoded(assembly, self.connections[peer].frame_max)
        position = self.next_position(peer, peer.other, assembly.channel) or 0
        if peer is CLIENT:
            self.count(SERVER, frames)
        for frame in frames:
            self.receive(peer, peer.other, frame)
            self._outputs[peer].append(frame.raw)
        if peer is CLIENT and isinstance(assembly.method, (ExecutionException, SessionDetach)):
            self.met(SERVER, assembly.channel, assembly.method)  # the client takes it for the broker's
        self.show(peer.other, frames, Note(leg=LEGS[peer]), position)

    def show(self, sender: Peer, frames: Sequence[Frame], note: Note, position: int = 0) -> None:
        """Show taps the frames of one control, or of the command at this position."""
        if frames and self.is_tapped:
            ids = [id_of(position) if frame.track == Track.COMMAND else None for frame in frames]
            data = b"".join([frame.raw for frame in frames])
            self._passed[sender].append((note, Amqp010Chunk(data, frames[0].offset, ids)))
