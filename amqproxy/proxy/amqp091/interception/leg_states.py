"""Connection states of both legs, kept consistent with the frames passed, and the output for each peer."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from amqproxy.amqp091.connection import Connection
from amqproxy.amqp091.errors import ProtocolError, Scope
from amqproxy.amqp091.frame import BODY, METHOD, OVERHEAD, Frame, encode_frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import CLIENT, CONNECTION_CLOSING, SERVER, ConnectionState, Peer
from amqproxy.proxy.amqp091.interception.chunk_frames import fits
from amqproxy.proxy.amqp091.interception.encoding import method_frame
from amqproxy.proxy.amqp091.interception.leg_output import LegOutput
from amqproxy.proxy.amqp091.stateful import STATEFUL
from amqproxy.taps.note import LEGS, Note


class LegStates:
    """Both legs of a session: each `Connection` is shown the frames that really pass on it, so that neither peer is
    sent a frame that it does not allow.

    `connections` are the legs', by the peer at their other end; `outputs` collect the bytes for each peer, `passed`
    the frames of each sender to be shown to taps, if it `is_tapped`. `met` is called with each passed method that
    matters to the session itself. Once it `is_draining`, frames of channels are no longer shown to the legs.
    """

    def __init__(
        self, connections: Mapping[Peer, Connection], met: Callable[[Peer, Method], None], *, is_tapped: bool
    ) -> None:
        self.connections = connections
        self.readers = {peer: connections[peer].readers[peer] for peer in Peer}
        self.outputs = {peer: LegOutput() for peer in Peer}
        self.passed: dict[Peer, list[tuple[Note, list[Frame]]]] = {CLIENT: [], SERVER: []}
        self.is_tapped = is_tapped
        self.is_draining = False
        self.answers: Callable[[Peer, Frame], bool] | None = None
        """Whether the proxy answers a frame, which is then not forwarded."""
        self.current: tuple[Peer, int] | None = None
        """The sender and channel of the frame in progress; its reader may be ahead of it."""
        self.delivering: dict[int, Method] = {}
        """The last delivery on each channel, while the client takes smaller frames than the broker."""
        self._met = met

    # --- passing frames

    def count(self, sender: Peer, frame: Frame) -> bool:
        """Whether the frame affects the connection state of the legs."""
        if self.is_draining and frame.channel:
            return False
        return not frame.is_in_order or (frame.kind == METHOD and STATEFUL[sender][frame.index] != 0)

    def receive(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it came from; return false if its channel or connection is closing there."""
        try:
            return self.connections[sender].receive(sender, frame)
        except ProtocolError as error:
            if error.scope is Scope.CONNECTION:
                raise
        return True  # a channel error is left to the broker to answer

    def show(self, sender: Peer, frame: Frame) -> bool:
        """Show a frame to the leg that it goes out on; return false if that is closing, so that it need not be sent."""
        is_live = True
        if self.count(sender, frame):
            try:
                is_live = self.connections[sender.other].receive(sender, frame)
            except ProtocolError as error:
                if error.scope is Scope.CONNECTION:
                    raise
        if is_live and frame.kind == METHOD and STATEFUL[sender][frame.index]:
            self._met(sender, frame.method)
        return is_live

    def takes_frames(self, peer: Peer, number: int) -> bool:
        """Whether a peer still accepts frames on that channel, or on the connection for channel 0."""
        connection = self.connections[peer]
        if number == 0:
            return connection.state is ConnectionState.OPEN
        channel = connection.channels.get(number)
        return channel is not None and channel.takes_frames

    # --- output

    def is_void(self, to: Peer, frame: Frame) -> bool:
        """Whether the connection is closing, so that the frame must be dropped."""
        state = self.connections[to].state
        if state is ConnectionState.OPEN or state not in CONNECTION_CLOSING:
            return False
        return frame.channel != 0 or state is ConnectionState.CLOSED

    def limit_of_cuts(self, to: Peer) -> int:
        """Return the frame_max of a peer if the other one may send larger frames; 0 otherwise."""
        frame_max, other = self.connections[to].frame_max, self.connections[to.other].frame_max
        return frame_max if 0 < frame_max < other or (frame_max and not other) else 0

    @property
    def is_transparent(self) -> bool:
        """Whether the frames of each peer fit the other."""
        return not any(self.limit_of_cuts(peer) for peer in Peer)

    def largest_frame(self, to: Peer) -> int:
        """Return the size of the largest body frame that a peer is sent uncut; 0 if there is no limit.

        RabbitMQ compares only the payload with frame_max, and some clients count so. Where the proxy cuts frames
        anyway, they keep to the letter of the specification.
        """
        frame_max = self.connections[to].frame_max
        return self.limit_of_cuts(to) or (frame_max and frame_max + OVERHEAD)

    def send(self, to: Peer, frame: Frame) -> None:
        """Send a frame, splitting a body that exceeds its receiver's frame size limit."""
        output = self.outputs[to]
        if frame.kind == BODY and not fits(frame, self.largest_frame(to)):
            payload, step = frame.payload, self.connections[to].frame_max - OVERHEAD
            for start in range(0, len(payload), step):
                output.append(encode_frame(BODY, frame.channel, payload[start : start + step]))
        else:
            output.send(frame)

    def reply(self, to: Peer, number: int, method: Method, note: Note) -> None:
        """Send a method of the proxy at once, unless the connection is closing: its peer then expects one answer."""
        frame = method_frame(number, method)
        if self.is_void(to, frame):
            return
        self.connections[to].receive(to.other, frame)
        self.outputs[to].append(frame.raw)
        if self.is_tapped:
            self.pass_to_taps(to.other, frame, note._replace(leg=LEGS[to]))

    def take_output(self, to: Peer) -> bytes | memoryview:
        """Take all bytes that are ready to be sent to a peer."""
        return self.outputs[to].take()

    # --- frames for taps

    def pass_to_taps(self, sender: Peer, frame: Frame, note: Note) -> None:
        """Queue a frame of `sender` for taps, joined with other frames of the command that the note is about."""
        passed = self.passed[sender]
        if passed and passed[-1][0] is note:
            passed[-1][1].append(frame)
        else:
            passed.append((note, [frame]))

    def take_passed(self, sender: Peer) -> list[tuple[Note, list[Frame]]]:
        """Take the frames of `sender` to be shown to taps, each group with its note."""
        frames, self.passed[sender] = self.passed[sender], []
        return frames
