"""Closes both connections of a session of AMQP 0-10 in good order, where the proxy ends it."""

from __future__ import annotations

from functools import partial

import trio

from amqproxy.amqp010.controls import ConnectionClose, ConnectionCloseOk
from amqproxy.amqp010.domains import CloseCode
from amqproxy.amqp010.errors import MAX_REPLY_TEXT
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.transitions import ConnectionState
from amqproxy.peer import CLIENT, Peer
from amqproxy.proxy.amqp010_leg import AMQP010Leg
from amqproxy.proxy.session.amqp010_relay import AMQP010Relay
from amqproxy.proxy.session.session_report import SessionReport
from amqproxy.sockets.transport import TransportBroken
from amqproxy.taps.amqp010_chunk import AMQP010Chunk
from amqproxy.taps.note import Note

_ANSWERS = frozenset({ConnectionCloseOk.index, ConnectionClose.index})
_NOTES = {CLIENT: Note(leg="client"), CLIENT.other: Note(leg="upstream")}


async def close_both(relays: tuple[AMQP010Relay, ...], report: SessionReport, text: str, timeout: float) -> None:
    """Send connection.close 320 to each peer whose connection is open, and wait for the answer, `timeout` seconds.

    The relays must have stopped. A peer is sent none where what came last to it may be the beginning of a frame.
    """
    with trio.move_on_after(timeout):
        async with trio.open_nursery() as nursery:
            for relay in relays:
                if relay.is_read and relay.target.connection.state is ConnectionState.OPEN:
                    nursery.start_soon(partial(_close, relay.target, report, text))


async def _close(leg: AMQP010Leg, report: SessionReport, text: str) -> None:
    reply_text = text.encode("utf-8", "replace")[:MAX_REPLY_TEXT].decode("utf-8", "ignore")
    data = encode_method(0, ConnectionClose(CloseCode.CONNECTION_FORCED, reply_text))
    _show(leg, leg.peer.other, data, report)
    try:
        await leg.transport.send(data)
        while leg.reader.error is None and (received := await leg.transport.receive()):
            for frame in leg.reader.feed(received):
                if frame.index in _ANSWERS:
                    _show(leg, leg.peer, frame.raw, report)
                    await leg.transport.send_eof()
                    return
    except TransportBroken:
        pass


def _show(leg: AMQP010Leg, sender: Peer, data: bytes, report: SessionReport) -> None:
    report.note_amqp010_frames(sender, AMQP010Chunk(data, 0, [None]), _NOTES[leg.peer])
