"""The AMQP 0-9-1 frames that a pump passes, counts and notes, and those before which it gives a connection back."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_NAME, BasicAck, BasicDeliver, BasicPublish
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.tally import METHOD_COUNT, Tally
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import LARGE, METHOD_COMES
from amqproxy.pump.return_reasons import WRONG as WRONG_FRAME
from amqproxy.taps.metering.amqp091.message_meter import MessageMeter
from amqproxy.taps.metering.message_counts import MessageCounts
from tests.example_count import example_count
from tests.pump.amqp091.random_commands import random_commands
from tests.pump.rig import DELIVER, PUBLISH, Wire, pump, reader, run_of_publishes
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_frames_pass_in_both_directions_and_are_counted() -> None:
    tallies = Tally(), Tally()
    wire = Wire(pump(tallies=tallies))
    wire.hand_over()
    wire.client.send(octets(f"{PUBLISH}, heartbeat"))
    wire.server.send(octets(f"{DELIVER}, 2: basic.ack"))
    wire.settle()
    assert words(bytes(wire.seen[1])) == f"{PUBLISH}, heartbeat"
    assert words(bytes(wire.seen[0])) == f"{DELIVER}, 2: basic.ack"
    latencies, total = wire.pump.collect()
    assert sum(latencies) == 2
    assert total > 0
    publish, deliver, ack = (BY_NAME[name].index for name in ("basic.publish", "basic.deliver", "basic.ack"))
    seen = [{slot: count for slot, count in enumerate(tally.frames) if count} for tally in tallies]
    assert seen[0] == {publish: 1, METHOD_COUNT + publish: 1, 2 * METHOD_COUNT + publish: 1, 4 * METHOD_COUNT: 1}
    assert seen[1] == {deliver: 1, METHOD_COUNT + deliver: 1, 2 * METHOD_COUNT + deliver: 1, ack: 1}
    assert sum(tallies[0].byte_counts) == len(octets(f"{PUBLISH}, heartbeat"))
    latencies, total = wire.pump.collect()
    assert (sum(latencies), total) == (0, 0), "what was collected is not collected again"
    assert sum(tallies[0].frames) == 4
    wire.close()


@pytest.mark.parametrize("size", [0, 1, 4096, 131_064, 131_072])
def test_frames_of_all_sizes(wire: Wire, size: int) -> None:
    wire.hand_over()
    data = octets(f"1: basic.publish, 1: header {size}" + (f", 1: body {size}" if size else ""))
    sent = 0
    while sent < len(data):
        sent += wire.client.send(data[sent : sent + 60_000])
        wire.settle()
    assert bytes(wire.seen[1]) == data


@pytest.mark.parametrize(
    "name", ["channel.close 200", "queue.declare", "basic.get", "connection.close 200", "tx.commit"]
)
def test_a_method_that_changes_the_connection_gives_it_back(wire: Wire, name: str) -> None:
    lease = wire.hand_over()
    on = "" if name.startswith("connection") else "1: "
    wire.client.send(octets(f"{PUBLISH}, {on}{name}, {PUBLISH}"))
    wire.settle()
    assert words(bytes(wire.seen[1])) == PUBLISH
    assert wire.returned == 1
    assert lease.reason == METHOD_COMES
    assert words(lease.rest(0)) == f"{on}{name}, {PUBLISH}"


def test_such_a_method_gives_back_before_it_is_whole(wire: Wire) -> None:
    lease = wire.hand_over()
    wire.client.send(octets("1: queue.declare")[:12])
    wire.settle()
    assert lease.reason == METHOD_COMES


WRONG = {
    "a bad end": encode_method(1, BasicPublish(routing_key="k"))[:-1] + b"\0",
    "an unknown type": b"\x04" + encode_frame(BODY, 1, b"")[1:],
    "a frame above the limit": b"\x03\0\1" + (200_000).to_bytes(4),
    "a body without a header": encode_frame(BODY, 1, b"x"),
    "a header without a method": encode_frame(HEADER, 1, ContentHeader(1).encode()),
    "a method where a header is due": encode_method(1, BasicPublish()) * 2,
    "too much body": encode_method(1, BasicPublish())
    + encode_frame(HEADER, 1, ContentHeader(1).encode())
    + encode_frame(BODY, 1, b"xx"),
    "a short header": encode_method(1, BasicPublish()) + encode_frame(HEADER, 1, bytes(11)),
    "a header of another class": encode_method(1, BasicPublish()) + encode_frame(HEADER, 1, bytes(14)),
    "a heartbeat with a payload": encode_frame(HEARTBEAT, 0, b"x"),
    "a heartbeat on a channel": encode_frame(HEARTBEAT, 1, b""),
    "a method of no class": encode_frame(METHOD, 1, bytes(4)),
    "a method of two bytes": encode_frame(METHOD, 1, bytes(2)),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG.keys())
def test_what_is_wrong_is_for_the_reader_to_refuse(wire: Wire, wrong: bytes) -> None:
    expected = reader(CLIENT, 1, 2)
    before = octets(PUBLISH)
    expected.feed(before + wrong)
    assert expected.error is not None
    lease = wire.hand_over()
    wire.client.send(before + wrong)
    wire.settle()
    assert wire.returned == 1
    assert bytes(wire.seen[1]) == before + wrong[: len(before + wrong) - len(before) - len(lease.rest(0))]
    lease.show()
    found = wire.readers[0]
    found.feed(lease.rest(0))
    assert repr(found.error) == repr(expected.error)
    assert found.offset == expected.offset
    assert found.refused == expected.refused


@pytest.mark.parametrize("frame", ["3: basic.publish", "3: basic.ack"])
def test_a_channel_that_is_not_open(wire: Wire, frame: str) -> None:
    lease = wire.hand_over()
    wire.client.send(octets(frame))
    wire.settle()
    assert words(lease.rest(0)) == frame


def test_content_headers_of_the_server_above_frame_max_pass() -> None:
    wire = Wire(pump(), frame_max=4096)
    lease = wire.hand_over()
    payload = ContentHeader(1).encode()
    large = encode_frame(HEADER, 1, payload + bytes(9000 - len(payload)))
    said = encode_method(1, BasicDeliver("c", 1)) + large + encode_frame(BODY, 1, b"x")
    wire.server.send(said)
    wire.settle()
    assert (wire.returned, bytes(wire.seen[0])) == (0, said)
    wire.client.send(octets("1: basic.publish") + large)
    wire.settle()
    assert (wire.returned, lease.reason) == (1, WRONG_FRAME)
    wire.close()


def test_a_frame_larger_than_its_buffer() -> None:
    wire = Wire(pump(), frame_max=1 << 24)
    lease = wire.hand_over()
    data = octets("1: basic.publish, 1: header 300000")
    wire.client.send(data + b"\x03\0\1" + (300_000).to_bytes(4))
    wire.settle()
    assert lease.reason == LARGE
    assert bytes(wire.seen[1]) == data
    wire.close()


RUNS = {
    "publishes": [octets(PUBLISH)] * 3,
    "publishes without a body": [octets("1: basic.publish, 1: header 0")] * 3,
    "deliveries": [
        encode_method(1, BasicDeliver("c", tag, redelivered=tag == 2)) + octets("1: header 5, 1: body 5")
        for tag in (1, 2, 3)
    ],
    "acks": [encode_method(1, BasicAck(tag)) for tag in (1, 2, 3)],
}


@pytest.mark.parametrize("place", [0, 1], ids=["client", "server"])
@pytest.mark.parametrize("name", RUNS)
def test_every_byte_of_a_run_is_read(name: str, place: int) -> None:
    """With any bit of its second command changed, a run passes and counts as the reader passes and counts it."""
    first, second, third = RUNS[name]
    for at in range(len(second)):
        for bit in (0x01, 0x80):
            changed = bytearray(second)
            changed[at] ^= bit
            data = first + bytes(changed) + third
            peers = CLIENT, SERVER
            tallies = Tally(), Tally()
            wire = Wire(pump(tallies=tallies))
            wire.readers = reader(peers[0], 1, 2, tally=tallies[0]), reader(peers[1], 1, 2, tally=tallies[1])
            lease = wire.hand_over()
            (wire.server if place else wire.client).send(data)
            wire.settle()
            wire.pump.recall(lease)
            wire.pump.collect()
            lease.show()
            found = wire.readers[place]
            found.feed(lease.rest(place))
            tally = Tally()
            expected = reader(peers[place], 1, 2, tally=tally)
            expected.feed(data)
            assert (found.offset, found.frames) == (expected.offset, expected.frames), (at, bit)
            assert repr(found.error) == repr(expected.error), (at, bit)
            assert list(tallies[place].frames) == list(tally.frames), (at, bit)
            assert list(tallies[place].byte_counts) == list(tally.byte_counts), (at, bit)
            state, other = found.content_states[1], expected.content_states[1]
            assert (state.expects, state.remaining, state.contents) == (other.expects, other.remaining, other.contents)
            wire.close()


# --- what is noted


def test_messages_are_counted_and_left_out() -> None:
    noted: list[bytes] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    wire.hand_over()
    wire.client.send(octets(PUBLISH) * 3 + octets("1: basic.publish, 1: header 9000, 1: body 9000"))
    wire.settle()
    assert b"".join(noted) == run_of_publishes(3, 5) + run_of_publishes(1, 9000)
    wire.close()


def test_bodies_of_messages_in_parts_are_left_out() -> None:
    noted: list[bytes] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    wire.hand_over()
    wire.client.send(octets("1: basic.publish, 1: header 9000, 1: body 8000, 1: body 1000"))
    wire.settle()
    cut = octets("1: basic.publish, 1: header 9000") + octets("1: body 8000")[:7] + octets("1: body 1000")[:7]
    assert b"".join(noted) == cut
    wire.close()


@settings(max_examples=example_count(60))
@given(seed=st.integers(0, 2**32))
def test_a_meter_counts_by_the_journal_as_by_the_bytes(seed: int) -> None:
    dice = Random(seed)
    opening = octets("1: channel.open, 1: confirm.select"), octets("1: channel.open-ok, 1: confirm.select-ok")
    data = random_commands(dice, is_server=False), random_commands(dice, is_server=True)
    direct, journalled = MessageCounts(), MessageCounts()
    meters = MessageMeter(direct), MessageMeter(journalled)
    for meter in meters:
        meter.feed(False, opening[0], 0.0)
        meter.feed(True, opening[1], 0.0)
    meters[0].feed(False, data[0], 1.0)
    meters[0].feed(True, data[1], 1.0)
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: meters[1].feed(is_server, data, 1.0, is_cut))
    wire.hand_over()
    for place, peer in enumerate((wire.client, wire.server)):
        left = data[place]
        while left:
            left = left[peer.send(left[: dice.randint(1, 9000)]) :]
            wire.settle()
    assert not meters[1].is_lost
    assert list(journalled.values) == list(direct.values)
    assert journalled.published_bytes.counts == direct.published_bytes.counts
    assert journalled.delivered_bytes.counts == direct.delivered_bytes.counts
    assert meters[1].frames == meters[0].frames
    wire.close()
