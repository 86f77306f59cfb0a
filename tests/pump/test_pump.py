"""A pump between two sockets: what passes, what is counted, when it gives back, and that no byte is lost or moved."""

from __future__ import annotations

import ctypes
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, encode_frame, encode_method
from amqproxy.amqp091.methods import BY_NAME, BasicPublish
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.tally import METHOD_COUNT, Tally
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.pump import pump as pump_module
from amqproxy.taps.metering.message_counts import MessageCounts
from amqproxy.taps.metering.message_meter import MessageMeter
from tests.pump.random_commands import random_commands
from tests.pump.rig import BOUNDS, KEEPS, Running, Wire, pump, reader, reset, settle, until
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not pump_module.IS_AVAILABLE, reason="a plain run has no pump: it is compiled")

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire(pump())
    yield made
    made.close()


# ------------------------------------------------------------------------------------------- what passes


def test_frames_pass_in_both_directions_and_are_counted() -> None:
    tallies = Tally(), Tally()
    wire = Wire(pump_module.Pump(KEEPS, tallies, BOUNDS, is_threaded=False))
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


def test_one_byte_at_a_time(wire: Wire) -> None:
    wire.hand_over()
    data = octets(f"{PUBLISH}, {PUBLISH}")
    for at in range(len(data)):
        wire.client.send(data[at : at + 1])
        wire.settle()
        assert data.startswith(bytes(wire.seen[1]))
        assert len(wire.seen[1]) <= at + 1
    assert bytes(wire.seen[1]) == data


def test_only_whole_frames_pass_and_the_rest_comes_back(wire: Wire) -> None:
    lease = wire.hand_over()
    data = octets(PUBLISH)
    wire.client.send(data[:-3])
    wire.settle()
    assert words(bytes(wire.seen[1])) == "1: basic.publish, 1: header 5"
    wire.pump.recall(lease)
    assert wire.returned == 1
    assert lease.reason == pump_module.RECALLED
    passed = len(wire.seen[1])
    assert lease.rest(0) == data[passed:-3]
    assert lease.show() == (len(data) - 3, 0)
    assert wire.readers[0].offset == passed
    assert wire.readers[0].frames == 2
    assert wire.readers[0].content_states[1].expects == BODY
    assert wire.readers[0].feed(lease.rest(0) + data[-3:]) == []
    assert wire.readers[0].content_states[1].expects == METHOD


def test_what_a_reader_holds_of_a_frame_goes_along(wire: Wire) -> None:
    data = octets(PUBLISH)
    wire.readers[0].feed(data[:10])
    wire.hand_over()
    assert wire.readers[0].held == b""
    wire.client.send(data[10:])
    wire.settle()
    assert bytes(wire.seen[1]) == data


@pytest.mark.parametrize("size", [0, 1, 4096, 131_064, 131_072])
def test_frames_of_all_sizes(wire: Wire, size: int) -> None:
    wire.hand_over()
    data = octets(f"1: basic.publish, 1: header {size}" + (f", 1: body {size}" if size else ""))
    sent = 0
    while sent < len(data):
        sent += wire.client.send(data[sent : sent + 60_000])
        wire.settle()
    assert bytes(wire.seen[1]) == data


# ------------------------------------------------------------------------------------------- what gives back


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
    assert lease.reason == pump_module.METHOD_COMES
    assert words(lease.rest(0)) == f"{on}{name}, {PUBLISH}"


def test_such_a_method_gives_back_before_it_is_whole(wire: Wire) -> None:
    lease = wire.hand_over()
    wire.client.send(octets("1: queue.declare")[:12])
    wire.settle()
    assert lease.reason == pump_module.METHOD_COMES


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


def test_a_frame_larger_than_its_buffer() -> None:
    wire = Wire(pump(), frame_max=1 << 24)
    lease = wire.hand_over()
    data = octets("1: basic.publish, 1: header 300000")
    wire.client.send(data + b"\x03\0\1" + (300_000).to_bytes(4))
    wire.settle()
    assert lease.reason == pump_module.LARGE
    assert bytes(wire.seen[1]) == data
    wire.close()


@pytest.mark.parametrize("place", [0, 1])
def test_the_end_of_either_half(wire: Wire, place: int) -> None:
    lease = wire.hand_over()
    wire.client.send(octets(PUBLISH))
    (wire.client, wire.server)[place].shutdown(socket.SHUT_WR)
    wire.settle()
    assert words(bytes(wire.seen[1])) == PUBLISH
    assert wire.returned == 1
    assert lease.reason == pump_module.ENDED
    assert wire.sockets[place].recv(1) == b"", "the end is there for whoever reads next"


@pytest.mark.parametrize("place", [0, 1])
def test_a_peer_that_resets(place: int) -> None:
    wire = Wire(pump(), tcp=True)
    lease = wire.hand_over()
    settle(wire.pump)
    reset((wire.client, wire.server)[place])
    settle(wire.pump)
    assert lease.reason == pump_module.GONE
    assert lease.error(place) == 104  # ECONNRESET: it is reported once
    assert lease.error(1 - place) == 0
    wire.close()


def test_a_target_that_is_gone() -> None:
    wire = Wire(pump(), tcp=True)
    lease = wire.hand_over()
    settle(wire.pump)
    wire.sockets[1].shutdown(socket.SHUT_WR)
    wire.client.send(octets(PUBLISH))
    settle(wire.pump)
    assert lease.reason == pump_module.GONE
    assert words(lease.unsent(0)) == PUBLISH
    wire.close()


def test_a_full_socket_stops_the_reading_and_goes_on() -> None:
    wire = Wire(pump(stuck_after=1000.0), buffer=8192)
    wire.hand_over()
    data = octets(PUBLISH) * 4000
    sent = 0
    while len(wire.seen[1]) < len(data):
        with suppress(BlockingIOError):
            sent += wire.client.send(data[sent:])
        settle(wire.pump)
        wire.look()
    assert bytes(wire.seen[1]) == data
    assert wire.returned == 0
    assert not wire.pump.has_deadline
    wire.close()


def test_a_full_socket_that_stays_full_gives_back() -> None:
    wire = Wire(pump(stuck_after=0.0), buffer=8192)
    lease = wire.hand_over()
    data = octets(PUBLISH) * 4000
    sent = wire.client.send(data)
    while not wire.returned:
        settle(wire.pump)
        with suppress(BlockingIOError):
            sent += wire.client.send(data[sent:])
    assert lease.reason == pump_module.STUCK
    assert lease.unsent(0)
    wire.look()
    rest = wire.sockets[0].recv(1 << 20)
    assert bytes(wire.seen[1]) + lease.unsent(0) + lease.rest(0) + rest == data[:sent]
    assert not wire.pump.has_deadline
    wire.close()


def test_a_connection_that_is_back_by_itself_when_it_is_recalled(wire: Wire) -> None:
    lease = wire.hand_over()
    wire.client.send(octets("1: queue.declare"))
    wire.pump.turn()  # it has the connection: that is its first command
    wire.pump.turn()
    wire.pump.recall(lease)
    assert wire.returned == 1
    assert lease.reason == pump_module.METHOD_COMES
    wire.pump.recall(lease)
    assert wire.returned == 1


# ------------------------------------------------------------------------------------------- over and back, many times


@settings(max_examples=100)
@given(seed=st.integers(0, 2**32), most_frames=st.integers(1, 9), cut=st.integers(1, 3000))
def test_bytes_out_are_bytes_in_however_often_the_owner_changes(seed: int, most_frames: int, cut: int) -> None:
    """Owner by owner, each byte passes once, in its order, and both know the same of contents as one reader would."""
    dice = Random(seed)
    wire = Wire(pump(most_frames=most_frames))
    data = random_commands(dice, is_server=False), random_commands(dice, is_server=True)
    left = list(data)
    peers = wire.client, wire.server
    while any(left) or wire.lease is not None:
        place = dice.randint(0, 1)
        if left[place]:
            size = dice.randint(1, max(cut, len(data[place]) // 50))
            left[place] = left[place][peers[place].send(left[place][:size]) :]
        lease = wire.lease or wire.hand_over()
        wire.settle()
        if dice.random() < 0.2 or not any(left):
            wire.pump.recall(lease)
        if not lease.is_pumped:
            _relay_here(wire, lease)
            wire.lease = None
    wire.settle()
    for place in (0, 1):
        assert bytes(wire.seen[1 - place]) == data[place]
        expected = reader((CLIENT, SERVER)[place], 1, 2)
        expected.feed(data[place])
        assert wire.readers[place].offset == expected.offset == len(data[place])
        assert wire.readers[place].frames == expected.frames
        for number in (1, 2):
            states = wire.readers[place].content_states[number], expected.content_states[number]
            assert len({(state.expects, state.index, state.remaining, state.contents) for state in states}) == 1
    wire.close()


def _relay_here(wire: Wire, lease: pump_module.PumpedConnection) -> None:
    """What a session does with what it gets back: all of it, up to the last whole frame."""
    lease.show()
    for place in (0, 1):
        target = wire.sockets[1 - place]
        unsent = lease.unsent(place)
        if unsent:
            assert target.send(unsent) == len(unsent)
        rest = lease.rest(place)
        if rest:
            assert wire.readers[place].feed(rest) == []
            taken = bytes(wire.readers[place].taken)
            if taken:
                assert target.send(taken) == len(taken)
    wire.look()


# ------------------------------------------------------------------------------------------- the journal


def test_what_has_passed_is_noted() -> None:
    noted: list[tuple[bool, bytes, bool]] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append((is_server, bytes(data), is_cut)))
    wire.hand_over()
    wire.client.send(octets(PUBLISH))
    wire.settle()
    wire.server.send(octets(DELIVER))
    wire.settle()
    assert noted == [(False, octets(PUBLISH), False), (True, octets(DELIVER), False)]
    wire.close()


def test_large_bodies_are_left_out() -> None:
    noted: list[bytes] = []
    wire = Wire(pump(), note=lambda is_server, data, now, is_cut: noted.append(bytes(data)))
    wire.hand_over()
    wire.client.send(octets("1: basic.publish, 1: header 9000, 1: body 9000"))
    wire.settle()
    assert noted == [octets("1: basic.publish, 1: header 9000") + octets("1: body 9000")[:7]]
    wire.close()


@settings(max_examples=60)
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


def test_a_full_journal_is_waited_for_and_nothing_is_lost() -> None:
    noted = bytearray()
    with Running(journal=1 << 20, stuck_after=1000.0) as running:
        wire = Wire(running, note=lambda is_server, data, now, is_cut: noted.extend(data), buffer=1 << 20)
        wire.hand_over()
        data = octets(PUBLISH) * 60_000
        left = memoryview(data)
        while left or len(wire.seen[1]) < len(data):
            with suppress(BlockingIOError):
                left = left[wire.client.send(left) :] if left else left
            wire.look()
            running.receive_returned()
        until(lambda: len(noted) == len(data), running)
        assert bytes(noted) == data == bytes(wire.seen[1])
        wire.close()


# ------------------------------------------------------------------------------------------- threads


def test_a_silent_peer_is_noticed_and_one_that_sends_is_not(wire: Wire) -> None:
    lease = wire.hand_over()
    assert wire.pump.silent(100.0) == [], "nothing watches it"
    lease.watch("me", (10.0, 0.0), (100.0, 100.0))
    assert wire.pump.silent(110.0) == []
    assert wire.pump.silent(111.0) == ["me"]
    assert lease.heard(0) == 100.0
    wire.client.send(octets("heartbeat"))
    wire.settle()
    assert lease.heard(0) is None, "it was heard since that was asked"
    assert wire.pump.silent(112.0) == []
    assert (lease.heard(0), lease.heard(1)) == (112.0, 100.0)
    assert wire.pump.silent(123.0) == ["me"]
    wire.close()


def test_other_readers_know_what_has_passed_since_the_connection_was_handed_over(wire: Wire) -> None:
    lease = wire.hand_over()
    lease.adopt(None)
    wire.client.send(octets(f"{PUBLISH}, 1: basic.publish"))
    wire.settle()
    size = len(octets(f"{PUBLISH}, 1: basic.publish"))
    assert lease.show() == (size, 0)
    readers = reader(CLIENT, 1, 2), reader(SERVER, 1, 2)
    for _ in range(2):  # others again know all of it
        lease.adopt(readers, (5, 7))
        lease.show()
        assert (readers[0].frames, readers[1].frames) == (9, 7)
        assert readers[0].content_states[1].contents == 2
        assert readers[0].offset == size
        readers = reader(CLIENT, 1, 2), reader(SERVER, 1, 2)
    assert (lease.received(0), lease.received(1)) == (size, 0)
    wire.close()


def test_of_many_that_come_back_some_are_returned_at_a_time() -> None:
    pump_ = pump()
    wires = [Wire(pump_) for _ in range(5)]
    leases = [each.hand_over() for each in wires]
    for each in wires:
        each.client.send(octets("1: queue.declare"))
    pump_.turn()
    pump_.turn()
    pump_.receive_returned(2)
    assert sum(each.returned for each in wires) == 2
    assert pump_.has_returned
    last = next(lease for lease, each in zip(leases, wires, strict=True) if not each.returned)
    pump_.recall(last)
    assert sum(each.returned for each in wires) == 3, "one that is there already is returned at once"
    pump_.receive_returned(2)
    assert [each.returned for each in wires] == [1] * 5
    assert not pump_.has_returned
    for each in wires:
        each.close()


def test_very_many_connections_at_once() -> None:
    count = 300
    with Running() as running:
        wires = [Wire(running, (1,)) for _ in range(count)]
        for wire in wires:
            wire.hand_over()
        assert running.connections == count
        for turn in range(3):
            for number, wire in enumerate(wires):
                wire.client.send(octets(PUBLISH) * (number % 3 + turn))
                wire.server.send(octets(DELIVER))
        for number, wire in enumerate(wires):

            def has_all(wire: Wire = wire, number: int = number) -> bool:
                wire.look()
                passed = len(wire.seen[1]), len(wire.seen[0])
                return passed == ((number % 3 * 3 + 3) * len(octets(PUBLISH)), 3 * len(octets(DELIVER)))

            until(has_all, running)
        for wire in wires:
            wire.close()
        assert running.connections == 0


def test_shutdown_while_all_are_busy() -> None:
    data = octets(PUBLISH) * 50
    with Running() as running:
        wires = [Wire(running) for _ in range(20)]
        for wire in wires:
            wire.hand_over()
            wire.client.send(data)
    for wire in wires:
        assert wire.returned == 1
        assert wire.lease is not None
        wire.look()
        rest = b""
        with suppress(BlockingIOError):
            rest = wire.sockets[0].recv(1 << 20)
        assert bytes(wire.seen[1]) + wire.lease.unsent(0) + wire.lease.rest(0) + rest == data
        wire.lease = None
        wire.close()


PING_PONG = """
import socket, sys
client, server = (socket.socket(fileno=int(each)) for each in sys.argv[1:3])
data = bytes.fromhex(sys.argv[3])
for each in (client, server):
    each.setblocking(True)
    each.settimeout(20)
for _ in range(200):
    for one, other in ((client, server), (server, client)):
        one.sendall(data)
        got = b""
        while len(got) < len(data):
            got += other.recv(1000)
        assert got == data
"""


def test_relaying_does_not_wait_for_the_interpreter() -> None:
    """Python is held up for as long as two hundred round trips take: in a wait that does not release its lock."""
    with Running() as running:
        wire = Wire(running, (1,))
        wire.hand_over()
        ends = [str(each.fileno()) for each in (wire.client, wire.server)]
        for each in (wire.client, wire.server):
            each.set_inheritable(True)
        command = [sys.executable, "-c", PING_PONG, *ends, octets("1: basic.ack").hex()]
        process = subprocess.Popen(command, close_fds=False)
        status = ctypes.c_int()
        assert ctypes.PyDLL(None).waitpid(process.pid, ctypes.byref(status), 0) == process.pid
        process.returncode = os.waitstatus_to_exitcode(status.value)
        assert process.returncode == 0
        wire.close()


COUNT_DESCRIPTORS = """
import gc, os
from tests.pump.random_commands import random_commands
from tests.pump.rig import Running, Wire

counts = []
for _ in range(4):
    with Running() as running:
        wire = Wire(running)
        wire.hand_over()
        wire.close()
    del running, wire
    gc.collect()
    counts.append(len(os.listdir("/proc/self/fd")))
print(counts)
"""


def test_no_descriptor_is_lost() -> None:
    """In a process of its own: in this one, there are threads of other tests."""
    command = [sys.executable, "-c", COUNT_DESCRIPTORS]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True)
    first, *others = json.loads(done.stdout)
    assert others == 3 * [first]


def test_it_ends_with_an_error_where_it_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_module, "IS_AVAILABLE", False)
    with pytest.raises(NotImplementedError):
        pump()
