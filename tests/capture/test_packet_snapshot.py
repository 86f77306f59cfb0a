"""Snapshots are written into packet options, and read back; other data of the same option is never taken for one."""

from __future__ import annotations

import io
import pickle
from contextlib import suppress
from struct import Struct

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.protocol_header import HEADER
from amqproxy.capture.files import read_packets
from amqproxy.capture.packet_snapshot import (
    CUSTOM_BINARY,
    ENTERPRISE,
    MAGIC,
    MAX_SNAPSHOT_BYTES,
    SnapshotComment,
    read_snapshot,
    snapshot_of,
    snapshot_options,
)
from amqproxy.capture.pcapng_writer import interface_description, packet, packet_options, section_header
from amqproxy.capture.warnings import CaptureWarning, WarningKind
from amqproxy.taps.trace.snapshot import ChannelSnapshot, ConnectionSnapshot, ConsumerSnapshot

SNAPSHOT = ConnectionSnapshot(ts_ns=5, protocol="0-9-1", channels=(ChannelSnapshot(number=1, mode="confirm"),))
LARGE = msgspec.structs.replace(
    SNAPSHOT,
    channels=(ChannelSnapshot(number=1, consumers=tuple(ConsumerSnapshot(tag=f"{i:0200}") for i in range(900))),),
)
WORD = Struct("<I").pack
HEAD = WORD(ENTERPRISE) + MAGIC


def custom(options: bytes) -> list[bytes]:
    """The values of custom options."""
    values = []
    while options:
        code, length = Struct("<2H").unpack_from(options)
        assert code == CUSTOM_BINARY
        values.append(options[4 : 4 + length])
        options = options[4 + (length + 3 & ~3) :]
    return values


def file_of(*options: bytes) -> bytes:
    """A recording with a packet for each of these options."""
    blocks = [section_header(program="amqproxy 1"), interface_description("client", "")]
    for each in options:
        blocks += map(bytes, packet(0, 1, b"", HEADER, 0, each + packet_options(1, ("a comment",))))
    return b"".join(blocks)


@pytest.mark.parametrize("snapshot", [SNAPSHOT, LARGE])
def test_written_and_read(snapshot: ConnectionSnapshot) -> None:
    found = list(read_packets(io.BytesIO(file_of(snapshot_options(snapshot.to_bytes()), b""))))
    assert [snapshot_of(each.comments) for each in found] == [snapshot, None]
    assert found[0].comments[0] == "a comment"


def test_a_large_snapshot_has_several_options() -> None:
    assert len(custom(snapshot_options(LARGE.to_bytes()))) > 1


def test_state_of_a_reader_that_is_kept_between_files() -> None:
    comment = read_snapshot(custom(snapshot_options(SNAPSHOT.to_bytes())), "<")
    assert isinstance(comment, SnapshotComment)
    assert snapshot_of([pickle.loads(pickle.dumps(comment))]) == SNAPSHOT


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ([WORD(ENTERPRISE)], "is not a snapshot"),
        ([WORD(ENTERPRISE) + b"data of another program, of the same number"], "is not a snapshot"),
        ([HEAD], "is not a snapshot"),
        ([HEAD + bytes(4)], "is not valid"),
        ([HEAD + bytes(4) + SNAPSHOT.to_bytes()[:-1]], "is not valid"),
        ([HEAD + bytes(4) + b"\x91" * 100_000], "is not valid"),
        ([HEAD + bytes(4) + b"\x82\xa5ts_ns\xcf" + b"\xff" * 8 + b"\xa8protocol\x01"], "is not valid"),
        ([HEAD + (9).to_bytes(4) + SNAPSHOT.to_bytes()], "are missing"),
        ([HEAD + (9).to_bytes(4) + b"1", HEAD + bytes(4) + b"2"], "do not fit"),
        ([HEAD + (MAX_SNAPSHOT_BYTES + 1).to_bytes(4) + b"1"], "do not fit"),
    ],
)
def test_what_is_not_a_snapshot(options: list[bytes], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_snapshot(options, "<")
    block = b"".join(
        Struct("<2H").pack(CUSTOM_BINARY, len(each)) + each + bytes(-len(each) & 3)
        for each in options
        if len(each) < 65_536
    )
    if not block:
        return
    warnings: list[CaptureWarning] = []
    data = file_of(b"", block, block)
    found = list(read_packets(io.BytesIO(data), warnings.append))
    assert [each.comments for each in found] == [("a comment",)] * 3
    assert [each.kind for each in warnings] == [WarningKind.SNAPSHOT]  # once
    assert data[warnings[0].offset :].startswith(WORD(6))
    assert len(file_of(b"")) == warnings[0].offset


def test_data_of_other_enterprises_is_ignored() -> None:
    assert read_snapshot([b"", b"abc", WORD(1) + b"data"], "<") is None


def test_the_enterprise_number_has_the_byte_order_of_the_section() -> None:
    (value,) = custom(snapshot_options(SNAPSHOT.to_bytes()))
    assert read_snapshot([value[3::-1] + value[4:]], ">") is not None


@given(st.lists(st.binary(max_size=60).map(lambda data: HEAD + data) | st.binary(max_size=60)))
def test_hostile_options(options: list[bytes]) -> None:
    with suppress(ValueError):
        read_snapshot(options, "<")
