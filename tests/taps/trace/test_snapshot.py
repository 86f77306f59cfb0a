"""Snapshots of connections as bytes, which readers of other versions take."""

from __future__ import annotations

import msgspec
import pytest

from amqproxy.taps.trace.open_tags import Span
from amqproxy.taps.trace.snapshot import (
    ChannelSnapshot,
    ConnectionSnapshot,
    ConsumerSnapshot,
    ContentSnapshot,
    DeclarationSnapshot,
    HandshakeSnapshot,
    RequestSnapshot,
)

SNAPSHOT = ConnectionSnapshot(
    ts_ns=1_700_000_000_000_000_000,
    protocol="0-9-1",
    handshake=HandshakeSnapshot(user="guest", virtual_host="/", client_properties={"product": "pika"}, heartbeat=60),
    channels=(
        ChannelSnapshot(
            number=1,
            epoch=2,
            mode="confirm",
            published=7,
            delivered=3,
            unconfirmed=(Span(6, 7, 1_699_999_999_000_000_000),),
            unacked=(Span(3, 3, 1_699_999_999_000_000_000, "consumer"),),
            consumers=(ConsumerSnapshot(tag="consumer", queue="orders"),),
            requests=(RequestSnapshot(ts_ns=5, sender="client", method=b"method"),),
            contents=(ContentSnapshot(sender="client", method=b"publish", remaining=10),),
        ),
    ),
    declarations=(DeclarationSnapshot(method=b"method", ts_ns=5, session=7, user="guest", address="10.0.0.1:4711"),),
)


def test_bytes_and_back() -> None:
    assert ConnectionSnapshot.from_bytes(SNAPSHOT.to_bytes()) == SNAPSHOT


def test_a_snapshot_of_before_there_were_declarations() -> None:
    earlier = msgspec.msgpack.decode(SNAPSHOT.to_bytes())
    del earlier["declarations"]
    assert ConnectionSnapshot.from_bytes(msgspec.msgpack.encode(earlier)).declarations == ()


def test_fields_of_later_versions_are_ignored() -> None:
    later = msgspec.msgpack.decode(SNAPSHOT.to_bytes()) | {"weather": "fine"}
    assert ConnectionSnapshot.from_bytes(msgspec.msgpack.encode(later)) == SNAPSHOT


@pytest.mark.parametrize("data", [b"", b"\x80", SNAPSHOT.to_bytes()[:-1], b"\xc1"])
def test_bytes_that_are_no_snapshot(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        ConnectionSnapshot.from_bytes(data)


def test_a_snapshot_is_encoded_once() -> None:
    snapshot = ConnectionSnapshot(ts_ns=1, protocol="0-9-1", channels=(ChannelSnapshot(number=1),))
    assert snapshot.to_bytes() is snapshot.to_bytes()
    assert ConnectionSnapshot.from_bytes(snapshot.to_bytes()) == snapshot
    assert msgspec.structs.replace(snapshot, ts_ns=2).to_bytes() != snapshot.to_bytes()


@pytest.mark.parametrize("count", [1, 15, 16, 65_535, 65_536])
def test_a_snapshot_whose_channels_were_encoded_one_by_one(count: int) -> None:
    channels = tuple(ChannelSnapshot(number=number % 65_536, published=number) for number in range(count))
    snapshot = ConnectionSnapshot(ts_ns=1, protocol="0-9-1", channels=channels)
    plain = snapshot.to_bytes()
    again = msgspec.structs.replace(snapshot)
    again.keep_encoded([msgspec.msgpack.encode(each) for each in channels])
    assert again.to_bytes() == plain
