"""One leg of a 0-10 session: the transport to one peer, and the connection state on it."""

from __future__ import annotations

from contextlib import suppress
from typing import Protocol

from amqproxy.amqp010.connection import Connection
from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk
from amqproxy.amqp010.errors import MAX_REPLY_TEXT, ProtocolError
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.tally import Tally
from amqproxy.amqp010.transitions import MAY_CLOSE
from amqproxy.amqp091.errors import ProtocolError as ProtocolError091
from amqproxy.conversion.amqp010.error_codes import connection_code
from amqproxy.peer import Peer
from amqproxy.proxy.interception.effects import ConnectionRefusal
from amqproxy.proxy.leg import Leg
from amqproxy.proxy.session.closing import REFUSED
from amqproxy.proxy.turns import TurnQueue
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import Transport
from amqproxy.taps.amqp010.chunk import Amqp010Chunk

MOST_RETAINED = 256
"""Maximum of detached sessions remembered for clients that come back; of others, the earlier state is unknown."""

_LAST = frozenset({ConnectionClose.index, ConnectionCloseOk.index})


class OwnAmqp010Frames(Protocol):
    """A recorder of frames exchanged between the proxy and one peer only."""

    def note_own_frames(self, leg: Peer, sender: Peer, frames: Amqp010Chunk) -> None: ...


class Amqp010Leg(Leg[Connection]):
    """The transport to `peer`, its `reader`, and the `Connection` in which the proxy plays the opposite part.

    The peer's frames are counted in `tallies`. It `is_framed` while only whole frames are sent to the peer, which ends
    once bytes pass unread. `report`, if there is one, records how the proxy closes the connection.
    """

    __slots__ = ("is_framed", "reader", "report")

    reader: FrameReader

    CLOSE_OK = encode_method(0, ConnectionCloseOk())

    def __init__(
        self,
        peer: Peer,
        transport: Transport,
        tallies: dict[Peer, Tally] | None = None,
        report: OwnAmqp010Frames | None = None,
        turns: TurnQueue | None = None,
    ) -> None:
        connection = Connection(initial_frame_max=0, tallies=tallies, most_retained=MOST_RETAINED)
        super().__init__(peer, transport, connection, turns)
        self.reader = self.connection.readers[peer]
        self.reader.zero_copy = True
        self.is_framed = True
        self.report = report

    @property
    def takes_close(self) -> bool:
        return self.is_framed and super().takes_close

    @property
    def awaits_close_ok(self) -> bool:
        return self.is_framed and super().awaits_close_ok

    def expects_close(self, error: ProtocolError091, client: Client) -> bool:
        is_refusal = error is REFUSED or isinstance(error, ConnectionRefusal)
        return is_refusal and self.is_framed and self.connection.state in MAY_CLOSE

    def close(self, error: ProtocolError091) -> bytes:
        text = error.text.encode("utf-8", "replace")[:MAX_REPLY_TEXT].decode("utf-8", "ignore")
        return self._sent(ConnectionClose(connection_code(error.code), text))

    def close_ok(self) -> bytes:
        return self._sent(ConnectionCloseOk())

    def _sent(self, method: Method) -> bytes:
        """Apply a control on channel 0 to the connection state, and return its bytes."""
        data = encode_method(0, method)
        with suppress(ProtocolError):
            self.connection.receive(self.peer.other, Frame(data))
        self._show(self.peer.other, data)
        return data

    def _show(self, sender: Peer, data: bytes) -> None:
        if self.report is not None:
            self.report.note_own_frames(self.peer, sender, Amqp010Chunk(data, 0, [None]))

    def take_last(self, frame: Frame) -> None:
        with suppress(ProtocolError):
            self.connection.receive(self.peer, frame)
        if frame.index in _LAST:
            self._show(self.peer, frame.raw)
