"""What passes through a tunnel as 0-10 is counted, and not changed."""

from __future__ import annotations

import structlog
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.controls import ConnectionStart, ConnectionStartOk
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.tally import Tally
from amqproxy.config import Limits
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.session.amqp010_counter import AMQP010Counter
from tests.proxy.stage import staged

START_OK = encode_method(0, ConnectionStartOk(mechanism="PLAIN"))
MESSAGE = Assembly(1, MessageTransfer(destination="x"), None, b"b" * 9000).encode(4096)


def counted(counter: AMQP010Counter, tally: Tally, data: bytes, sizes: list[int]) -> int:
    for size in sizes:
        counter.saw(CLIENT, data[:size])
        data = data[size:]
    counter.saw(CLIENT, data)
    return sum(tally.frames)


@given(st.lists(st.integers(0, 5000)))
def test_how_bytes_are_cut_does_not_matter(sizes: list[int]) -> None:
    tallies = {peer: Tally() for peer in Peer}
    counter = AMQP010Counter(tallies, lambda sender, error: None)
    assert counted(counter, tallies[CLIENT], HEADER + START_OK + MESSAGE, sizes) == 1 + 1 + 3
    assert sum(tallies[CLIENT].byte_counts) == len(START_OK + MESSAGE)
    assert not any(tallies[SERVER].frames)


def test_what_breaks_the_rules_is_reported_once_and_not_counted() -> None:
    tallies = {peer: Tally() for peer in Peer}
    violations: list[tuple[Peer, ProtocolError]] = []
    counter = AMQP010Counter(tallies, lambda sender, error: violations.append((sender, error)))
    assert counted(counter, tallies[CLIENT], HEADER + START_OK + b"\xff" * 20 + START_OK, [20, 50, 3]) == 1
    ((sender, error),) = violations
    assert (sender, error.offset) == (CLIENT, len(HEADER + START_OK))


def test_a_server_that_speaks_another_version_is_not_looked_at() -> None:
    tallies = {peer: Tally() for peer in Peer}
    counter = AMQP010Counter(tallies, lambda sender, error: None)
    counter.saw(SERVER, b"AMQP\x00\x00\x09\x01")
    counter.saw(SERVER, b"\x01\x00\x00")
    assert not any(tallies[SERVER].frames)


def test_a_fault_of_our_own_ends_the_counting_alone(log: list[structlog.typing.EventDict]) -> None:
    def fail(sender: Peer, error: ProtocolError) -> None:
        raise ValueError("on purpose")

    counter = AMQP010Counter({peer: Tally() for peer in Peer}, fail)
    for _ in range(3):
        counter.saw(CLIENT, HEADER + b"\xff" * 20)
    assert [entry["event"] for entry in log if entry["log_level"] == "error"] == ["frames not counted any further"]


async def test_frames_are_counted_by_the_proxy(
    log: list[structlog.typing.EventDict], autojump_clock: MockClock
) -> None:
    async with staged(limits=Limits(close_timeout=5.0)) as stage:
        stage.client.say(HEADER + START_OK[:5])
        await wait_all_tasks_blocked()
        stage.client.say(START_OK[5:] + MESSAGE)
        await wait_all_tasks_blocked()
        assert stage.broker.look() == HEADER + START_OK + MESSAGE
        answer = HEADER + encode_method(0, ConnectionStart()) + b"\xff" * 12
        stage.broker.say(answer)
        await wait_all_tasks_blocked()
        assert stage.client.look() == answer, "also what is wrong"
        labels = {"sender": "client", "method": "message.transfer"}
        assert stage.count("frames_total", type="command", **labels) == 1
        assert stage.count("frames_total", type="body", **labels) == 3
        assert stage.count("frame_bytes_total", type="command", **labels) + stage.count(
            "frame_bytes_total", type="body", **labels
        ) == len(MESSAGE)
        assert stage.count("frames_total", sender="server", type="control", method="connection.start") == 1
        assert stage.count("protocol_errors_total", sender="server", code="501") == 1
        stage.client.perform("EOF")
        stage.broker.perform("EOF")
        await stage.is_over.wait()
        assert log[-1]["reason"] == "closed, after 0-10"
