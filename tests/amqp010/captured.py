"""The bytes that the peers of each connection of a capture sent, in the order of the wire."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.capture.files import files_of
from amqproxy.capture.packets import Dissector
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.stream_events import Data, Event
from amqproxy.peer import CLIENT, SERVER, Peer

Pieces = list[tuple[Peer, bytes]]
"""What was sent, piece by piece."""


def connections(path: Path) -> list[Pieces]:
    """The connections of a capture whose client begins with a protocol header of 0-10."""
    streams: dict[int, Pieces] = {}

    def take(events: Iterable[Event]) -> None:
        for event in events:
            if isinstance(event, Data):
                sender = SERVER if event.direction else CLIENT
                streams.setdefault(event.stream, []).append((sender, bytes(event.data)))

    dissector, reassembler = Dissector(path.name), Reassembler(path.name)
    for file in files_of(path):
        for packet in file.packets():
            if segment := dissector.segment(packet):
                take(reassembler.feed(segment))
    take(reassembler.finish())
    return [pieces for pieces in streams.values() if sent(pieces, CLIENT).startswith(HEADER)]


def sent(pieces: Pieces, peer: Peer) -> bytes:
    """All that one peer sent."""
    return b"".join(data for sender, data in pieces if sender is peer)
