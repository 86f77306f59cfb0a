"""A log of traffic as a pcapng file, which Wireshark opens and `decode` reads."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.amqp091.transitions import CLIENT
from amqproxy.capture import synthetic_tcp
from amqproxy.capture.pcapng_writer import (
    OUTBOUND,
    interface_description,
    packet,
    packet_options,
    section_header,
)
from amqproxy.capture.synthetic_tcp import MAX_SEGMENT_BYTES, SyntheticTCP
from amqproxy.replay.traffic_log import TrafficLog, endpoints_of

_OPTIONS = packet_options(OUTBOUND)


def pcapng_of(traffic: TrafficLog, *, program: str, comment: str = "") -> Iterator[bytes]:
    """Yield the pieces of the file. Connections get a synthetic TCP handshake and end."""
    yield section_header(program=program, comment=comment)
    yield interface_description("replay", "what a replay has sent and received")
    connections: dict[int, SyntheticTCP] = {}
    last_ns = 0
    for each in traffic.chunks:
        connection = connections.get(each.stream)
        if connection is None:
            client, server = endpoints_of(each.stream)
            connection = connections[each.stream] = SyntheticTCP(client, server, each.stream + 1)
            for _, header in connection.handshake():
                yield _packet(each.ts_ns, header)
        sender = synthetic_tcp.CLIENT if each.sender is CLIENT else synthetic_tcp.SERVER
        for at in range(0, len(each.data), MAX_SEGMENT_BYTES):
            data = each.data[at : at + MAX_SEGMENT_BYTES]
            yield _packet(each.ts_ns, connection.data(sender, len(data)) + data)
            acknowledgement = connection.acknowledgement(sender)
            if acknowledgement:
                yield _packet(each.ts_ns, acknowledgement)
        last_ns = each.ts_ns
    for connection in connections.values():
        for _, header in connection.close(synthetic_tcp.CLIENT):
            yield _packet(last_ns, header)


def _packet(ts_ns: int, data: bytes) -> bytes:
    return b"".join(packet(0, ts_ns, b"", data, 0, _OPTIONS))
