"""Decoder for a proxy's packet stream, received in pieces of pcapng.

Connections get the numbers of the proxy's sessions, so that they are the same everywhere.
"""

from __future__ import annotations

import io
from collections.abc import Iterator

from amqproxy.capture import pcapng
from amqproxy.capture.byte_window import ByteWindow
from amqproxy.capture.decode import Decoder
from amqproxy.capture.decoded import Decoded, is_upstream_only
from amqproxy.capture.packets import Dissector
from amqproxy.capture.reassembly import Reassembler
from amqproxy.capture.session_numbers import session_or_stream
from amqproxy.capture.warnings import ignore_warning

NAME = "proxy"

_DESCRIBING = frozenset({pcapng.SECTION_HEADER, pcapng.INTERFACE_DESCRIPTION})


class PacketDecoder:
    """Decodes pieces of one recording, each of whole blocks; the first contains the section and interface blocks.

    The recording has both legs; traffic that is the same on both is yielded once.
    """

    def __init__(self) -> None:
        self._description = b""
        self._dissector = Dissector(NAME, ignore_warning)
        self._reassembler = Reassembler(NAME, ignore_warning)
        self._decoder = Decoder(number_of=session_or_stream)

    def feed(self, data: bytes) -> Iterator[Decoded]:
        """Decode the traffic of these blocks; `CaptureError` if they are not valid pcapng."""
        end = _description_end(data)
        if end:
            self._description = data[:end]
        window = ByteWindow(NAME, io.BytesIO(self._description + data[end:]), ignore_warning)
        for packet in pcapng.packets(window):
            segment = self._dissector.segment(packet)
            if segment is None:
                continue
            for event in self._reassembler.feed(segment):
                passed = self._decoder.feed(event)
                yield from (each for each in passed if each.leg != "upstream" or is_upstream_only(each))
                if not passed and self._decoder.is_hopeless(event.stream):
                    self._reassembler.ignore(event.stream)


def _description_end(data: bytes) -> int:
    """Return the size of the leading section header and interface blocks."""
    at = 0
    while at + 8 <= len(data) and int.from_bytes(data[at : at + 4], "little") in _DESCRIBING:
        at += int.from_bytes(data[at + 4 : at + 8], "little") or len(data)
    return min(at, len(data))
