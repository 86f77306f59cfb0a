"""Packets of link types that only tshark reads."""

import io
import struct

import pytest

from amqproxy.capture.files import read_packets
from amqproxy.capture.warnings import CaptureWarning
from amqproxy.tshark.tshark import Tshark
from tests.capture import building, golden
from tests.capture.records import read_records
from tests.real.require import require, require_module

pytestmark = pytest.mark.real

CISCO_HDLC, FRAME_RELAY = 104, 107


@pytest.fixture(autouse=True)
def _tshark() -> None:
    require("tshark")
    require_module("pyshark")


def rewrapped(name: str, link_types: list[int]) -> bytes:
    """A capture over Ethernet, with other headers around its IP packets, by turns."""
    heads = {
        building.ETHERNET: building.ethernet(b""),
        CISCO_HDLC: b"\x0f\0\x08\0",
        FRAME_RELAY: b"\x18\x41\3\xcc",
    }
    blocks = [building.section()]
    blocks += [building.interface(each, options=building.option(9, b"\x09")) for each in link_types]
    packets = list(read_packets(golden.FOLDER / name))
    for index, packet in enumerate(packets):
        number = index % len(link_types)
        data = heads[link_types[number]] + packet.data[14:]
        blocks.append(building.enhanced(packet.ts_ns, data, number=number))
    return b"".join(blocks)


@pytest.mark.parametrize(
    ("name", "link_types"),
    [
        ("consume-large.shuffled", [CISCO_HDLC]),
        ("consume-large.shuffled", [building.ETHERNET, CISCO_HDLC, FRAME_RELAY]),
        ("kombu-table.broken", [FRAME_RELAY, building.ETHERNET]),
        ("consume-large.fragmented", [CISCO_HDLC]),
    ],
)
def test_they_are_read_as_others_are(name: str, link_types: list[int]) -> None:
    """In order, and beside those that we read ourselves."""
    notices: list[CaptureWarning] = []
    with Tshark(notices.append) as engine:
        capture = rewrapped(f"{name}.pcapng", link_types)
        records = list(read_records(io.BytesIO(capture), notices.append, engine=engine))
    found = [record.to_json().decode() for record in records]
    assert found == (golden.FOLDER / f"{name}.jsonl").read_text().splitlines()
    assert notices == []


def test_ipv6_and_packets_that_were_cut() -> None:
    segments = [building.tcp(b"AMQP\0\0\x09\1" + bytes(100), seq=1), building.tcp(b"", seq=109)]
    blocks = [building.section(), building.interface(CISCO_HDLC)]
    for number, segment in enumerate(segments):
        data = b"\x0f\0" + struct.pack(">H", 0x86DD) + building.ipv6(segment)
        blocks.append(building.enhanced(number, data[:80], original=len(data)))
    with Tshark() as engine:
        (packet, _) = list(engine.packets(read_packets(io.BytesIO(b"".join(blocks)))))
    assert packet.link_type == 101
    assert packet.data[8:40] == building.address(building.CLIENT6) + building.address(building.SERVER6)
    assert packet.data[60:] == b"AMQP\0\0\x09\1" + bytes(8)
    assert packet.original_length - len(packet.data) == 92
