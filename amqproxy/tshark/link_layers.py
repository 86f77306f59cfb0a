"""Packets of other link types, converted by tshark to IP packets with the same TCP segment."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from ipaddress import ip_address
from struct import pack

import msgspec

from amqproxy.capture.packets import LINK_TYPES
from amqproxy.capture.pcap import Packet
from amqproxy.tshark.engine import pipe_command
from amqproxy.tshark.packet_pipe import PacketPipe

MAX_WAITING_PACKETS = 4096
"""Packets that may wait for tshark, including those queued behind them."""
MAX_WAITING_BYTES = 32 * 1024 * 1024
"""Bytes that may wait for tshark."""
LIVE_PATIENCE = 0.2
"""Seconds that a live packet may take before later packets are examined."""

RAW_IP = 101

_FIELDS = (
    "frame.protocols",
    "ip.src",
    "ip.dst",
    "ipv6.src",
    "ipv6.dst",
    "tcp.srcport",
    "tcp.dstport",
    "tcp.seq_raw",
    "tcp.ack_raw",
    "tcp.flags",
    "tcp.len",
    "tcp.payload",
)


class ForeignLinks:
    """Passes packets on in the same order, those of other link types converted to raw IP.

    tshark is started for the first of these. A packet without TCP stays unchanged.
    """

    def __init__(self, stack: ExitStack, *, is_live: bool = False) -> None:
        self._stack = stack
        self._is_live = is_live
        self._pipe: PacketPipe | None = None
        self._waiting: deque[_Waiting] = deque()
        self._waiting_bytes = 0

    def packets(self, packets: Iterator[Packet]) -> Iterator[Packet]:
        """Yield the packets of one file."""
        for packet in packets:
            is_foreign = packet.link_type not in LINK_TYPES
            if not is_foreign and not self._waiting:
                yield packet
                continue
            if is_foreign:
                self._send(packet)
            self._waiting.append(_Waiting(packet, is_foreign))
            self._waiting_bytes += len(packet.data)
            yield from self._ready(LIVE_PATIENCE if self._is_live else 0)
        yield from self._ready(None)

    def _send(self, packet: Packet) -> None:
        if self._pipe is None:
            output = ["-T", "fields", *(part for field in _FIELDS for part in ("-e", field)), "-E", "occurrence=l"]
            self._pipe = self._stack.enter_context(PacketPipe(pipe_command(output)))
        self._pipe.send(packet.ts_ns, packet.data, packet.link_type, packet.original_length)

    def _ready(self, seconds: float | None) -> Iterator[Packet]:
        """Yield the packets that are ready, waiting up to `seconds` for each."""
        while self._waiting:
            is_full = len(self._waiting) > MAX_WAITING_PACKETS or self._waiting_bytes > MAX_WAITING_BYTES
            packet = self._first(None if is_full else seconds)
            if packet is None:
                return
            yield packet

    def _first(self, seconds: float | None) -> Packet | None:
        """Return the first waiting packet; None if its row does not arrive in time."""
        waiting = self._waiting[0]
        packet = waiting.packet
        if waiting.is_foreign:
            assert self._pipe is not None
            row = self._pipe.row(seconds)
            if row is None:
                return None
            packet = _as_raw_ip(packet, row)
        self._waiting.popleft()
        self._waiting_bytes -= len(waiting.packet.data)
        return packet


class _Waiting(msgspec.Struct):
    packet: Packet
    is_foreign: bool


def _as_raw_ip(packet: Packet, row: list[str]) -> Packet:
    """Return the packet reduced to its TCP segment with an IP header."""
    found = dict(zip(_FIELDS, row, strict=False))
    if not found.get("tcp.seq_raw"):
        return packet
    layers = found["frame.protocols"].split(":")
    before_tcp = layers[: layers.index("tcp")] if "tcp" in layers else layers
    is_ipv6 = [layer for layer in before_tcp if layer in ("ip", "ipv6")][-1:] == ["ipv6"]
    kind = "ipv6" if is_ipv6 else "ip"
    ends = ip_address(found[f"{kind}.src"]).packed + ip_address(found[f"{kind}.dst"]).packed
    payload, length = bytes.fromhex(found["tcp.payload"]), int(found["tcp.len"] or 0)
    numbers = [int(found[name]) for name in ("tcp.srcport", "tcp.dstport", "tcp.seq_raw", "tcp.ack_raw")]
    tcp = pack(">HHIIHHHH", *numbers, 5 << 12 | int(found["tcp.flags"], 16) & 0xFFF, 0, 0, 0)
    # A length of 0 makes the reader use the length of the packet.
    if is_ipv6:
        head = pack(">IHBB", 6 << 28, 0, 6, 64) + ends
    else:
        head = pack(">BBHHHBBH", 0x45, 0, 0, 0, 0, 64, 6, 0) + ends
    data = head + tcp + payload
    original = len(data) + max(0, length - len(payload))
    return Packet(packet.ts_ns, RAW_IP, data, original, packet.leg, packet.comments)
