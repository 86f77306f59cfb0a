"""Protocol state of a connection, as seen by a neutral observer of both peers.

It applies the tables in `transitions` to the frames of both directions: the broker plays SERVER, the proxy has one for
each of its legs, a capture feeds both directions. Bytes enter through `feed` (or a separate reader and `receive`), and
an illegal frame raises a `ProtocolError` with the reply code. It reads no clock; times are passed in. Tags of
deliveries and confirms are not checked, since no owner gets every frame.
"""

from __future__ import annotations

from amqproxy.amqp091.channel import Channel
from amqproxy.amqp091.errors import ChannelError, CommandInvalid, FrameError, NotAllowed, ProtocolError, UnexpectedFrame
from amqproxy.amqp091.frame import FRAME_MIN_SIZE, HEARTBEAT, METHOD, OVERHEAD, Frame, encode_method
from amqproxy.amqp091.frame import HEADER as CONTENT_HEADER
from amqproxy.amqp091.frame_reader import MAX_HEADER, ContentState, FrameReader
from amqproxy.amqp091.methods import (
    BY_INDEX,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
)
from amqproxy.amqp091.protocol_header import HEADER, recognise
from amqproxy.amqp091.tally import Tally
from amqproxy.amqp091.transitions import (
    CLIENT,
    CONNECTION_CLOSING,
    HANDSHAKE,
    HAS_CHANNELS,
    MAY_CLOSE,
    SENDERS,
    SERVER,
    ConnectionState,
    Peer,
)
from amqproxy.peer import Heartbeats

MIN_CONTENT_HEADER = 12
"""Size of a content header without property flags (section 4.2.6.1)."""


class Connection(Heartbeats):
    """One connection between a CLIENT and a SERVER.

    `state` is its state, `channels` are the open ones by number; `frame_max`, `channel_max` and `heartbeat` (seconds)
    are 0 until negotiated, and if unlimited. `is_blocked` holds between connection.blocked and unblocked. `client` is
    the client's start-ok, `virtual_host` the one it opened.

    `initial_frame_max` limits frames before negotiation, `header_max` the server's content headers at any time.
    """

    __slots__ = (
        "_tune",
        "channel_max",
        "channels",
        "client",
        "frame_max",
        "is_blocked",
        "readers",
        "state",
        "virtual_host",
    )

    def __init__(
        self,
        *,
        initial_frame_max: int = FRAME_MIN_SIZE,
        header_max: int = MAX_HEADER,
        tallies: dict[Peer, Tally] | None = None,
    ) -> None:
        super().__init__()
        self.state = ConnectionState.NEW
        self.channels: dict[int, Channel] = {}
        self.frame_max = self.channel_max = 0
        self.is_blocked = False
        self.client: ConnectionStartOk | None = None
        self.virtual_host = ""
        self.readers = {
            peer: FrameReader(
                tallies[peer] if tallies else None,
                frame_max=initial_frame_max,
                header_max=header_max if peer is SERVER else 0,
            )
            for peer in Peer
        }
        self._tune: ConnectionTune | None = None

    @property
    def offered_frame_max(self) -> int:
        """The frame_max of the server's tune; 0 if it is unlimited, or not known."""
        return 0 if self._tune is None else self._tune.frame_max

    # --- traffic

    def feed(self, sender: Peer, data: bytes) -> list[Frame]:
        """Process bytes from `sender`; return the complete frames that count.

        The protocol header is not a frame: pass it to `receive_header`. Raise `ProtocolError` at the first illegal
        frame; the frames before it in `data` are then lost; to get them, use `readers` and `receive`, which process
        frames one by one.
        """
        reader = self.readers[sender]
        frames = [frame for frame in reader.feed(data) if self.receive(sender, frame)]
        if reader.error is not None:
            raise reader.error
        return frames

    def send(self, sender: Peer, channel: int, method: Method) -> bytes:
        """Apply a method sent by `sender`, and return its bytes."""
        raw = encode_method(channel, method)
        self.receive(sender, Frame(raw))
        return raw

    def receive_header(self, sender: Peer, data: bytes) -> None:
        """Process a protocol header of eight bytes; raise `ProtocolError` if it is not 0-9-1."""
        move = HANDSHAKE.get(self.state, {}).get((sender, "protocol-header"))
        if move is None:
            raise UnexpectedFrame(f"a protocol header from the {sender} in state {self.state}")
        if sender is CLIENT and data != HEADER:
            raise CommandInvalid(f"the client speaks {recognise(data)}", offset=0)
        self.state = move
        self.readers[sender].skip(len(data))

    def receive(self, sender: Peer, frame: Frame) -> bool:
        """Process a frame; return `False` if it must be discarded because its channel or connection is closing.

        Raise `ProtocolError`, with the offset and the method at fault, if it may not be sent now.
        """
        try:
            if frame.channel == 0:
                return self._receive_on_connection(sender, frame)
            return self._receive_on_channel(sender, frame)
        except ProtocolError as error:
            if error.offset is None:
                error.offset = frame.offset
            error.channel = frame.channel
            if frame.kind == METHOD and not error.class_id:
                cls = BY_INDEX[frame.index]
                error.class_id, error.method_id = cls.class_id, cls.method_id
            raise

    def _receive_on_connection(self, sender: Peer, frame: Frame) -> bool:
        if frame.kind == HEARTBEAT:
            return True
        if frame.kind != METHOD:
            raise UnexpectedFrame("content on channel 0")
        method: Method = frame.method
        move = self._connection_move(sender, method.name)
        if move is not None:
            self._apply(method)
            self.state = move
            if move in CONNECTION_CLOSING:
                for number in self.channels:
                    self._close_content_states(number)
            return True
        if self.state in CONNECTION_CLOSING:
            return False
        if self.state in HAS_CHANNELS or self.state is ConnectionState.AGREED:
            raise ChannelError(f"{method.name} from the {sender} on channel 0 in state {self.state}")
        raise CommandInvalid(f"{method.name} from the {sender} in state {self.state}")

    def _connection_move(self, sender: Peer, name: str) -> ConnectionState | None:
        if name == "connection.close" and self.state in MAY_CLOSE:
            return ConnectionState.CLOSED_BY_CLIENT if sender is CLIENT else ConnectionState.CLOSED_BY_SERVER
        moves = HANDSHAKE.get(self.state) or CONNECTION_CLOSING[self.state]
        return moves.get((sender, name))

    def _receive_on_channel(self, sender: Peer, frame: Frame) -> bool:
        if self.state in CONNECTION_CLOSING:
            return False
        number = frame.channel
        if self.state not in HAS_CHANNELS:
            raise UnexpectedFrame(f"a frame on channel {number} in state {self.state}")
        channel = self.channels.get(number)
        if channel is None:
            self._open(sender, number, frame)
            return True
        was_open = channel.takes_frames
        is_live = channel.receive(sender, frame)
        if was_open and not channel.takes_frames:
            self._close_content_states(number)
        if channel.state is None:
            del self.channels[number]
        return is_live

    def _open(self, sender: Peer, number: int, frame: Frame) -> None:
        if frame.kind == CONTENT_HEADER and frame.length() < OVERHEAD + MIN_CONTENT_HEADER:
            raise FrameError(f"a content header of less than {MIN_CONTENT_HEADER} bytes")
        if frame.kind != METHOD:
            raise UnexpectedFrame(f"content on channel {number}, which is not open")
        name = frame.method.name
        if name != "channel.open" or sender not in SENDERS[name]:
            raise ChannelError(f"{name} on channel {number}, which is not open: expected 'channel.open'")
        if self.channel_max and len(self.channels) >= self.channel_max:
            raise NotAllowed(f"number of channels opened ({len(self.channels)}) has reached the agreed channel_max")
        content_states = {peer: reader.open_content_state(number) for peer, reader in self.readers.items()}
        self.channels[number] = self._new_channel(number, content_states)

    def _new_channel(self, number: int, content_states: dict[Peer, ContentState]) -> Channel:
        return Channel(number, content_states)

    def _close_content_states(self, number: int) -> None:
        for reader in self.readers.values():
            reader.close_content_state(number)

    def _apply(self, method: Method) -> None:
        """Apply the state changes of a method on channel 0."""
        match method:
            case ConnectionStartOk():
                self.client = method
            case ConnectionTune():
                self._tune = method
            case ConnectionTuneOk():
                self._agree(method)
            case ConnectionOpen():
                self.virtual_host = method.virtual_host
            case _:
                if method.name in ("connection.blocked", "connection.unblocked"):
                    self.is_blocked = method.name == "connection.blocked"

    def _agree(self, answer: ConnectionTuneOk) -> None:
        """Apply the limits of tune-ok, which must not exceed the server's (section 1.4.2.6)."""
        assert self._tune is not None
        for name in ("channel_max", "frame_max"):
            offered, chosen = getattr(self._tune, name), getattr(answer, name)
            if offered and (chosen == 0 or chosen > offered):
                raise NotAllowed(f"tune-ok takes {name} {chosen}, where the server offered {offered}")
        if 0 < answer.frame_max < FRAME_MIN_SIZE:
            raise NotAllowed(f"frame_max {answer.frame_max} is below the minimum of {FRAME_MIN_SIZE}")
        self.channel_max, self.frame_max = answer.channel_max, answer.frame_max
        self.heartbeat = answer.heartbeat
        for reader in self.readers.values():
            reader.set_frame_max(answer.frame_max)


__all__ = ["CLIENT", "SERVER", "Connection", "ConnectionState", "Peer"]
