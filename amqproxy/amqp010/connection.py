"""Protocol state of a connection, as seen by a neutral observer of both peers.

It applies the tables in `transitions` to the frames of both directions, as `amqp091.connection` does: bytes enter
through `feed` (or a separate reader and `receive`), and an illegal frame raises a `ProtocolError` with the code, the
control or command, and the section of the specification. It reads no clock; times are passed in.
"""

from __future__ import annotations

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.channel import Channel
from amqproxy.amqp010.controls import (
    ConnectionClose,
    ConnectionHeartbeat,
    ConnectionOpen,
    ConnectionRedirect,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp010.domains import Track
from amqproxy.amqp010.errors import FramingError, ProtocolError, ResourceLimitExceeded, Scope
from amqproxy.amqp010.frame import FRAME_MIN_SIZE, Frame
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Control
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.session import Session
from amqproxy.amqp010.tally import Tally
from amqproxy.amqp010.transitions import (
    CONNECTION_CLOSING,
    HANDSHAKE,
    HAS_CHANNELS,
    MAY_CLOSE,
    ConnectionState,
)
from amqproxy.peer import CLIENT, SERVER, Heartbeats, Peer

MAX_DEVIATIONS = 1000
"""Maximum number of recorded deviations."""


class Connection(Heartbeats):
    """One connection between a CLIENT and a SERVER.

    `state` is its state, `channels` are those with frames, by number, and `session_count` is the number of them with an
    attached session; `channel_max`, `frame_max` and `heartbeat` (seconds) are 0 until negotiated, and if unlimited.
    `client` is the client's start-ok, `virtual_host` the one it opened, `redirect` the host to which it was redirected.
    `retained` has the detached sessions by name, at most `most_retained`; the connections of one user may share it
    (sessions of other users are different ones).

    With `deviations`, a violation within one session, after which frames can still be understood, is appended to that
    list, at most `MAX_DEVIATIONS`, instead of being raised.
    """

    __slots__ = (
        "_mechanisms",
        "_tune",
        "channel_max",
        "channels",
        "client",
        "deviations",
        "frame_max",
        "insists",
        "most_retained",
        "readers",
        "redirect",
        "retained",
        "session_count",
        "state",
        "virtual_host",
    )

    def __init__(
        self,
        *,
        initial_frame_max: int = FRAME_MIN_SIZE,
        tallies: dict[Peer, Tally] | None = None,
        retained: dict[bytes, Session] | None = None,
        most_retained: int | None = None,
        deviations: list[ProtocolError] | None = None,
    ) -> None:
        super().__init__()
        self.state = ConnectionState.NEW
        self.channels: dict[int, Channel] = {}
        self.session_count = 0
        self.frame_max = self.channel_max = 0
        self.client: ConnectionStartOk | None = None
        self.virtual_host = ""
        self.insists = False
        self.redirect = ""
        self.retained = retained if retained is not None else {}
        self.most_retained = most_retained
        self.deviations = deviations
        self.readers = {
            peer: FrameReader(tallies[peer] if tallies else None, frame_max=initial_frame_max) for peer in Peer
        }
        self._mechanisms: tuple[str, ...] = ()
        self._tune: ConnectionTune | None = None

    # --- traffic

    def feed(self, sender: Peer, data: bytes) -> list[Frame]:
        """Process bytes from `sender`; return the complete frames that count.

        The protocol header is not a frame: pass it to `receive_header`. Raise `ProtocolError` at the first illegal
        frame; the frames before it in `data` are then lost.
        """
        reader = self.readers[sender]
        frames = [frame for frame in reader.feed(data) if self.receive(sender, frame)]
        if reader.error is not None:
            raise reader.error
        return frames

    def send(self, sender: Peer, assembly: Assembly) -> bytes:
        """Apply a control or command sent by `sender`, and return its bytes."""
        raw = assembly.encode(self.frame_max or FRAME_MIN_SIZE)
        start = 0
        while start < len(raw):
            end = start + int.from_bytes(raw[start + 2 : start + 4])
            self.receive(sender, Frame(raw[start:end]))
            start = end
        return raw

    def receive_header(self, sender: Peer, data: bytes) -> None:
        """Process a protocol header of eight bytes (section 4.3).

        A server that answers with another version than its client's ends the connection; the client's must be 0-10.
        """
        is_ours = data == HEADER
        if sender is CLIENT and not is_ours:
            raise FramingError("the client's protocol header is not that of 0-10", section="4.3", offset=0)
        move = HANDSHAKE.get(self.state, {}).get((sender, "protocol-header" if is_ours else "other-protocol-header"))
        if move is None:
            raise FramingError(f"a protocol header from the {sender} in state {self.state}", section="4.3")
        self.state = move
        self.readers[sender].skip(len(data))

    def receive(self, sender: Peer, frame: Frame) -> bool:
        """Process a frame; return `False` if it must be discarded because its channel or connection has ended.

        Raise `ProtocolError`, with the offset and the control or command at fault, if it may not be sent now.
        """
        try:
            return self._receive(sender, frame)
        except ProtocolError as error:
            if error.offset is None:
                error.offset = frame.offset
            error.channel = frame.channel
            if self.deviations is None or error.scope is Scope.CONNECTION or isinstance(error, ResourceLimitExceeded):
                raise
            if len(self.deviations) < MAX_DEVIATIONS:
                self.deviations.append(error)
            return True

    def _receive(self, sender: Peer, frame: Frame) -> bool:
        if self.state in (ConnectionState.NEW, ConnectionState.GREETED):
            raise FramingError(f"a frame from the {sender} in state {self.state}", section="4.3")
        number = frame.channel
        channel = self.channels.get(number)
        if channel is None:
            channel = self._new_channel(number)
        if frame.track == Track.CONTROL:
            control = channel.read_control(sender, frame)
            return control is None or self._receive_control(sender, channel, control)
        if self.state in CONNECTION_CLOSING:
            return False
        if self.state not in HAS_CHANNELS:
            raise FramingError(f"a command from the {sender} in state {self.state}", section="9.1 connection")
        return channel.receive_command_frame(sender, frame)

    def _new_channel(self, number: int) -> Channel:
        if number and self.state not in HAS_CHANNELS and self.state not in CONNECTION_CLOSING:
            raise FramingError(f"a frame on channel {number} in state {self.state}", section="4.4.2")
        if self.channel_max and number >= self.channel_max:
            raise FramingError(
                f"a frame on channel {number}, where {self.channel_max} were agreed",
                section="9.1 connection.tune-ok, available-channels",
            )
        channel = self.channels[number] = Channel(number, self.retained, self.most_retained)
        return channel

    def _receive_control(self, sender: Peer, channel: Channel, control: Control) -> bool:
        try:
            if control.class_code == ConnectionClose.class_code:
                return self._receive_on_connection(sender, channel, control)
            if self.state in CONNECTION_CLOSING:
                return False
            if self.state not in HAS_CHANNELS:
                raise FramingError(f"{control.name} from the {sender} in state {self.state}", section="9.1 connection")
            had_session = channel.session is not None
            try:
                return channel.receive_control(sender, control)
            finally:
                self.session_count += (channel.session is not None) - had_session
        except ProtocolError as error:
            if not error.class_code:
                error.class_code, error.method_code = control.class_code, control.method_code
            raise

    def _receive_on_connection(self, sender: Peer, channel: Channel, control: Control) -> bool:
        if isinstance(control, ConnectionHeartbeat):
            return True
        move = self._move(sender, control.name)
        if move is not None:
            if channel.number and not isinstance(control, ConnectionClose) and move not in CONNECTION_CLOSING:
                raise FramingError(f"{control.name} on channel {channel.number}", section="9.1 connection")
            self.state = move
            self._apply(control)
            if move is ConnectionState.CLOSED:
                self.release()
            return True
        if self.state in CONNECTION_CLOSING:
            return False
        raise FramingError(f"{control.name} from the {sender} in state {self.state}", section=f"9.1 {control.name}")

    def _move(self, sender: Peer, name: str) -> ConnectionState | None:
        if name == "connection.close" and self.state in MAY_CLOSE:
            return ConnectionState.CLOSED_BY_CLIENT if sender is CLIENT else ConnectionState.CLOSED_BY_SERVER
        moves = HANDSHAKE[self.state] if self.state in HANDSHAKE else CONNECTION_CLOSING[self.state]
        return moves.get((sender, name))

    def release(self) -> None:
        """Retain the attached sessions when the transport is lost."""
        for channel in self.channels.values():
            channel.release()
        self.session_count = 0

    # --- negotiation

    def _apply(self, control: Control) -> None:
        """Apply the state changes of a control of the connection."""
        match control:
            case ConnectionStart():
                self._mechanisms = tuple(control.mechanisms or ())
            case ConnectionStartOk():
                self.client = control
                if self._mechanisms and control.mechanism not in self._mechanisms:
                    raise FramingError(
                        f"the mechanism {control.mechanism!r}, where the server has {', '.join(self._mechanisms)}",
                        section="9.1 connection.start-ok, validity",
                    )
            case ConnectionTune():
                self._tune = control
                self._check_tune(control)
            case ConnectionTuneOk():
                self._agree(control)
            case ConnectionOpen():
                self.virtual_host = control.virtual_host or ""
                self.insists = control.insist
            case ConnectionRedirect():
                self.redirect = control.host or ""
                if self.insists:
                    raise FramingError("a redirect of a client that insists", section="9.1 connection.open, behavior")
            case _:
                pass

    def _check_tune(self, tune: ConnectionTune) -> None:
        low, high = tune.heartbeat_min, tune.heartbeat_max
        if low is not None and high is not None and high < low:
            raise FramingError(
                f"heartbeat-max {high} is below heartbeat-min {low}", section="9.1 connection.tune, permitted-range"
            )
        if low is None and high is not None:
            raise FramingError(
                f"heartbeat-max {high} without heartbeat-min", section="9.1 connection.tune, no-heartbeat-min"
            )
        if tune.max_frame_size is not None and tune.max_frame_size < FRAME_MIN_SIZE:
            raise FramingError(
                f"max-frame-size {tune.max_frame_size} is below the minimum of {FRAME_MIN_SIZE}",
                section="9.1 connection.tune, minimum",
            )

    def _agree(self, answer: ConnectionTuneOk) -> None:
        """Apply the limits of tune-ok, which must not exceed the server's; missing ones are the server's."""
        tune = self._tune
        assert tune is not None
        for name, offered, chosen in (
            ("channel-max", tune.channel_max, answer.channel_max),
            ("max-frame-size", tune.max_frame_size, answer.max_frame_size),
        ):
            if offered and chosen is not None and chosen > offered:
                raise FramingError(
                    f"tune-ok takes {name} {chosen}, where the server offered {offered}",
                    section="9.1 connection.tune-ok, upper-limit",
                )
        if answer.max_frame_size is not None and answer.max_frame_size < FRAME_MIN_SIZE:
            raise FramingError(
                f"max-frame-size {answer.max_frame_size} is below the minimum of {FRAME_MIN_SIZE}",
                section="9.1 connection.tune-ok, minimum",
            )
        low, high, heartbeat = tune.heartbeat_min, tune.heartbeat_max, answer.heartbeat
        if heartbeat and low is None:
            raise FramingError(
                f"a heartbeat of {heartbeat} s, where the server sends none",
                section="9.1 connection.tune-ok, no-heartbeat-min",
            )
        if heartbeat and (heartbeat < (low or 0) or (high is not None and heartbeat > high)):
            raise FramingError(
                f"a heartbeat of {heartbeat} s, where {low} to {high} s were offered",
                section="9.1 connection.tune-ok, permitted-range",
            )
        self.channel_max = answer.channel_max or tune.channel_max or 0
        self.frame_max = answer.max_frame_size or tune.max_frame_size or 0
        self.heartbeat = heartbeat or 0
        for reader in self.readers.values():
            reader.set_frame_max(self.frame_max)


__all__ = ["CLIENT", "SERVER", "Connection", "ConnectionState", "Peer"]
