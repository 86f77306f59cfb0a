"""Capture files of dialogues: packets of TCP, in the order of their times."""

from __future__ import annotations

from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.decoded import DecodedProtocolHeader
from tests.capture.building import ethernet, ipv4, pcapng, tcp
from tests.export.dialogue import Dialogue

SECOND = 1_000_000_000

SEGMENT = 32_768
"""Bytes of the largest segment; a packet has at most 65,535."""


def capture_of(*dialogues: Dialogue) -> bytes:
    """A pcapng file in which these connections pass."""
    return pcapng(packets_of(*dialogues))


def packets_of(*dialogues: Dialogue) -> list[tuple[int, bytes]]:
    """The packets of these connections, with their times."""
    packets = []
    for dialogue in dialogues:
        ends = [each.rpartition(":") for each in dialogue.connection.split("-")]
        sent = {"client": 0, "server": 0}
        for each in dialogue.decoded:
            if isinstance(each, DecodedProtocolHeader):
                data = b"AMQP\0\0\x09\x01"
            elif isinstance(each, Amqp091DecodedFrames):
                data = b"".join(frame.raw for frame in each.frames)
            else:
                continue
            (source, _, source_port), (target, _, target_port) = ends if each.sender == "client" else reversed(ends)
            for begin in range(0, len(data), SEGMENT):
                part = data[begin : begin + SEGMENT]
                segment = tcp(part, source=int(source_port), target=int(target_port), seq=1 + sent[each.sender])
                sent[each.sender] += len(part)
                packets.append((each.ts_ns, ethernet(ipv4(segment, source=source, target=target))))
    return sorted(packets, key=lambda packet: packet[0])


def later(dialogue: Dialogue, seconds: float) -> Dialogue:
    """The dialogue goes on after a while."""
    dialogue._now += round(seconds * SECOND)
    return dialogue
