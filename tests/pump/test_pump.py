"""A pump and its owner: over and back, many connections, threads, and the end."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from amqproxy.pump import pump as pump_module
from amqproxy.pump.pumps import are_available
from amqproxy.pump.return_reasons import METHOD_COMES, RECALLED
from tests.pump.rig import DEADLINE, DELIVER, PUBLISH, Running, Wire, is_readable, pump, until
from tests.transcripts.words import octets

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")


def test_a_connection_that_is_back_by_itself_when_it_is_recalled(wire: Wire) -> None:
    lease = wire.hand_over()
    wire.client.send(octets("1: queue.declare"))
    wire.pump.turn()  # it has the connection: that is its first command
    wire.pump.turn()
    wire.pump.recall(lease)
    assert wire.returned == 1
    assert lease.reason == METHOD_COMES
    wire.pump.recall(lease)
    assert wire.returned == 1


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


def test_a_recall_does_not_wait_until_other_connections_are_relayed() -> None:
    pump_ = pump()
    wires = [Wire(pump_) for _ in range(5)]
    leases = [each.hand_over() for each in wires]
    pump_.turn()
    for each in wires:
        each.client.send(octets(PUBLISH))
    pump_.recall(leases[-1])
    assert wires[-1].returned == 1
    assert leases[-1].reason == RECALLED
    others = [each.server for each in wires[:-1]]
    assert not any(is_readable(each.fileno()) for each in others), "their turn comes behind it"
    pump_.turn()
    assert all(is_readable(each.fileno(), DEADLINE) for each in others)
    for each in wires:
        each.close()


def test_all_are_asked_back_at_once_and_come_a_few_at_a_time() -> None:
    with Running() as running:
        wires = [Wire(running) for _ in range(20)]
        leases = [each.hand_over() for each in wires]
        running.ask_back()
        assert not any(each.returned for each in wires)
        running.recall(leases[3])
        assert wires[3].returned == 1
        while running.connections:
            before = running.connections
            running.receive_returned(4)
            assert running.connections >= before - 4
        assert [each.returned for each in wires] == [1] * len(wires)
        assert {each.reason for each in leases} == {RECALLED}
        for each in wires:
            each.close()


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


def test_a_recall_waits_for_its_own_answer_though_counting_fails() -> None:
    def fail(is_server: bool, data: memoryview, now: float, is_cut: bool) -> None:
        raise MemoryError("injected")

    with Running() as running:
        for _ in range(20):
            failing, other = Wire(running, note=fail), Wire(running)
            leases = failing.hand_over(), other.hand_over()
            failing.client.send(octets(PUBLISH))
            assert is_readable(failing.server.fileno(), DEADLINE)
            with pytest.raises(MemoryError, match="injected"):
                running.recall(leases[0])
            running.recall(leases[1])
            for wire, lease in zip((failing, other), leases, strict=True):
                assert wire.returned == 1
                assert lease.reason == RECALLED
                wire.close()


COUNT_DESCRIPTORS = """
import gc, os
from tests.pump.amqp091.random_commands import random_commands
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
