"""A TCP connection with made-up packets: IP and TCP headers around bytes that were seen without them.

Each end acknowledges the other's data with its next packet, and in between after much data. This module may be
compiled.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from amqproxy.capture.endpoints import Endpoint

CLIENT, SERVER = 0, 1
"""The two ends, as the directions of their data."""

MAX_SEGMENT_BYTES = 60_000
"""Data in one packet; an IP packet is limited to 65,535 bytes."""

MAX_UNACKNOWLEDGED_SEGMENTS = 64
MAX_UNACKNOWLEDGED_BYTES = 512 * 1024
"""Data that one end may send before the other acknowledges it, so that the window never looks full."""

_MAX_SEGMENTS = cython.declare(cython.int, MAX_UNACKNOWLEDGED_SEGMENTS)
_MAX_BYTES = cython.declare(cython.longlong, MAX_UNACKNOWLEDGED_BYTES)

MAX_GAP_BYTES = 1024 * 1024 * 1024
"""Largest gap: sequence numbers further ahead would look like old ones."""

_FIN = cython.declare(cython.int, 1)
_SYN = cython.declare(cython.int, 2)
_RST = cython.declare(cython.int, 4)
_PSH = cython.declare(cython.int, 8)
_ACK = cython.declare(cython.int, 16)
_WINDOW = b"\xff\xff"
_SYN_OPTIONS = b"\x02\x04\xea\x60" + b"\x01\x03\x03\x0e"
"""The maximum segment size, and a window scale of 14: windows of 1 GiB."""
_MAPPED = bytes(10) + b"\xff\xff"
"""Prefix of an IPv4-mapped IPv6 address."""

MOST_HEADER_BYTES = 60
"""Size of the IP and TCP headers, without options."""

_TCP_BYTES = cython.declare(cython.int, 20)
_IPV4 = bytes.fromhex("4500 0000 0000 4000 4006 0000")
_IPV6 = bytes.fromhex("6000 0000 0000 0640")
"""Beginning of the IP headers, up to the addresses: lengths and checksum are 0 here; 64 hops, TCP."""


@cython.final
@cython.cclass
class _End:
    """Send state of one end: the next sequence number, and the data that the other end has not acknowledged.

    `head` is the constant part of its packet headers, with 0 for the rest; the first `ip_size` bytes are IP.
    """

    def __init__(self, source: Endpoint, target: Endpoint, start: int) -> None:
        addresses = source.address + target.address
        self.is_ipv4 = len(addresses) == 8
        ip = (_IPV4 if self.is_ipv4 else _IPV6) + addresses
        self.ip_size = len(ip)
        head: bytes = ip + source.port.to_bytes(2) + target.port.to_bytes(2) + bytes(10) + _WINDOW + bytes(4)
        if not cython.compiled:
            self.head = bytearray(MOST_HEADER_BYTES)
        i: cython.Py_ssize_t
        for i in range(len(head)):
            self.head[i] = head[i]
        self.checksum = 0
        if self.is_ipv4:
            self.checksum = sum([int.from_bytes(ip[at : at + 2]) for at in range(0, 20, 2)])
        self.next = start & 0xFFFFFFFF
        self.segments = 0
        self.size = 0
        self.skipped = 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def advance(self, size: cython.longlong) -> cython.void:
        """Advance the sequence number by `size`."""
        self.next = (self.next + size) & 0xFFFFFFFF


@cython.final
@cython.cclass
class SyntheticTCP:
    """The packets of a connection from `client` to `server`, each from its IP header to the end of its TCP header.

    They are returned in the order in which they have to be written. The sequence numbers of both ends follow from
    `start`, which must differ from that of another connection between the same ports. TCP checksums are 0.
    """

    def __init__(self, client: Endpoint, server: Endpoint, start: int) -> None:
        if len(client.address) != len(server.address):
            client, server = _mapped(client), _mapped(server)
        self.client = client
        self.server = server
        self._of_client = _End(client, server, start)
        self._of_server = _End(server, client, start * 2_654_435_761)  # any other number

    @cython.cfunc
    @cython.inline
    def _end(self, sender: cython.int) -> _End:
        return self._of_client if sender == CLIENT else self._of_server

    def handshake(self) -> list[tuple[int, bytes]]:
        """Return the packets that open the connection, with their senders; otherwise it looks joined in its middle."""
        packets = [(CLIENT, self._header(CLIENT, _SYN, 0, _SYN_OPTIONS))]
        self._of_client.advance(1)
        packets.append((SERVER, self._header(SERVER, _SYN | _ACK, 0, _SYN_OPTIONS)))
        self._of_server.advance(1)
        packets.append((CLIENT, self._header(CLIENT, _ACK, 0)))
        return packets

    def data(self, sender: cython.int, size: cython.longlong) -> bytes:
        """Return the header of a packet with `size` bytes of data, at most MAX_SEGMENT_BYTES."""
        header = self._header(sender, _PSH | _ACK, size)
        self._note_sent(sender, size)
        return header

    @cython.cfunc
    @cython.exceptval(check=False)
    def _note_sent(self, sender: cython.int, size: cython.longlong) -> cython.void:
        """Account for a sent packet, which also acknowledges all data of the peer."""
        end: _End = self._end(sender)
        peer: _End = self._end(1 - sender)
        end.advance(size)
        end.segments += 1
        end.size += size
        end.skipped = 0
        peer.segments = peer.size = 0

    def skip(self, sender: int, size: int) -> None:
        """Skip `size` missing bytes of an end, MAX_GAP_BYTES at most since its last data."""
        end: _End = self._end(sender)
        size = min(size, MAX_GAP_BYTES - end.skipped)
        end.skipped += size
        end.advance(size)

    def acknowledgement(self, sender: cython.int) -> bytes:
        """Return the peer's acknowledgement of an end's data if one is due, otherwise b""."""
        return self.acknowledge(1 - sender) if self._owes_acknowledgement(sender) else b""

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _owes_acknowledgement(self, sender: cython.int) -> cython.bint:
        """Whether an acknowledgement of an end's data is due."""
        end: _End = self._end(sender)
        owes: cython.bint = end.segments >= _MAX_SEGMENTS or end.size >= _MAX_BYTES
        return owes

    def acknowledge(self, by: cython.int) -> bytes:
        """Return a packet without data that acknowledges the other end's data."""
        self._note_acknowledged(1 - by)
        return self._header(by, _ACK, 0)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _note_acknowledged(self, sender: cython.int) -> cython.void:
        """Account for the acknowledgement of all data of an end."""
        end: _End = self._end(sender)
        end.segments = end.size = 0

    def close(self, by: int) -> list[tuple[int, bytes]]:
        """Return the packets that close the connection, first by one end, then by the other, with their senders."""
        packets = [(by, self._header(by, _FIN | _ACK, 0))]
        self._end(by).advance(1)
        packets.append((1 - by, self._header(1 - by, _FIN | _ACK, 0)))
        self._end(1 - by).advance(1)
        packets.append((by, self._header(by, _ACK, 0)))
        return packets

    def reset(self, by: int) -> list[tuple[int, bytes]]:
        """Return the packet that resets the connection, with its sender."""
        return [(by, self._header(by, _RST | _ACK, 0))]

    @cython.cfunc
    def _header(self, sender: cython.int, flags: cython.int, size: cython.longlong, options: bytes = b"") -> bytes:
        header = bytearray(MOST_HEADER_BYTES)
        end: cython.Py_ssize_t = self._write_header(header, 0, sender, flags, size, len(options))
        return bytes(header[:end]) + options

    @cython.cfunc
    @cython.exceptval(check=False)
    def _write_header(
        self,
        out: cython.p_uchar,
        at: cython.Py_ssize_t,
        sender: cython.int,
        flags: cython.int,
        size: cython.longlong,
        option_size: cython.int,
    ) -> cython.Py_ssize_t:
        """Write a header at `at`, without the options that follow it; return its end."""
        end: _End = self._end(sender)
        tcp: cython.Py_ssize_t = at + end.ip_size
        stop: cython.Py_ssize_t = tcp + _TCP_BYTES
        offset: cython.int = _TCP_BYTES + option_size
        length: cython.longlong = offset + size
        checksum: cython.uint
        i: cython.Py_ssize_t
        for i in range(stop - at):
            out[at + i] = end.head[i]
        if end.is_ipv4:
            length += end.ip_size
            checksum = end.checksum + length
            checksum = (checksum & 0xFFFF) + (checksum >> 16)
            checksum = (checksum & 0xFFFF) + (checksum >> 16) ^ 0xFFFF
            out[at + 2] = length >> 8 & 0xFF
            out[at + 3] = length & 0xFF
            out[at + 10] = checksum >> 8 & 0xFF
            out[at + 11] = checksum & 0xFF
        else:
            out[at + 4] = length >> 8 & 0xFF
            out[at + 5] = length & 0xFF
        _put_number(out, tcp + 4, end.next)
        if flags & _ACK:
            _put_number(out, tcp + 8, self._end(1 - sender).next)
        out[tcp + 12] = offset << 2
        out[tcp + 13] = flags
        return stop


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_number(out: cython.p_uchar, at: cython.Py_ssize_t, number: cython.uint) -> cython.void:
    """Write a four-byte number."""
    out[at] = number >> 24 & 0xFF
    out[at + 1] = number >> 16 & 0xFF
    out[at + 2] = number >> 8 & 0xFF
    out[at + 3] = number & 0xFF


def _mapped(endpoint: Endpoint) -> Endpoint:
    """Return an endpoint with an IPv6 address."""
    return Endpoint(_MAPPED + endpoint.address, endpoint.port) if len(endpoint.address) == 4 else endpoint
