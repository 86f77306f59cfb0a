"""One direction, with a passage that is more than a pass-through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import ConnectionCloseOk
from amqproxy.amqp010.errors import ConnectionForced, FramingError, ProtocolError
from amqproxy.amqp010.frame import Frame
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.transitions import ConnectionState
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.direction import Amqp010Direction
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.proxy.session.relay import Relay
from amqproxy.sockets.transport import TransportBroken
from tests.proxy.amqp010_script import method

SYNC = method(ExecutionSync())


class Wire:
    """A transport from which these chunks come, and which keeps what it is sent."""

    def __init__(self, *chunks: bytes) -> None:
        self.chunks = list(chunks)
        self.sent: list[bytes] = []

    async def receive(self) -> bytes:
        await trio.lowlevel.checkpoint()
        return self.chunks.pop(0) if self.chunks else b""

    async def send(self, data: bytes) -> None:
        await trio.lowlevel.checkpoint()
        self.sent.append(bytes(data))

    async def send_eof(self) -> None:
        await trio.lowlevel.checkpoint()


class Strict:
    """A passage that must read; it answers, is full, and refuses, as it is asked to."""

    is_tapped = False
    must_read = True
    refusal: ProtocolError | None = None
    relays_unseen = False
    fault = None

    def __init__(self) -> None:
        self.frames: list[Frame] = []
        self.output: dict[Peer, bytes] = {CLIENT: b"", SERVER: b""}
        self.fullness = self.turns = 0
        self.error: Exception | None = None

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        self.frames += frames
        self.turns += 1
        self.output[sender.other] += b"".join(frame.raw for frame in frames)
        if self.error is not None:
            raise self.error

    def take_output(self, to: Peer) -> bytes:
        output, self.output[to] = self.output[to], b""
        return output

    def is_full(self, sender: Peer) -> bool:
        return self.fullness > 0

    def end(self) -> None:
        pass


def relay(passage: Strict, *chunks: bytes, faults: list[Exception] | None = None) -> tuple[Relay, Wire, Wire]:
    wires = {CLIENT: Wire(*chunks), SERVER: Wire()}
    legs = {peer: Amqp010Leg(peer, wire) for peer, wire in wires.items()}
    direction = Amqp010Direction(
        legs[CLIENT],
        legs[SERVER],
        passage,
        lambda: None,
        lambda is_server, data, began: None,
        lambda sender, header: header == HEADER,
        lambda sender, error: pytest.fail("not of a passage that must read"),
        lambda sender, failure: pytest.fail("not of a passage that must read"),
    )
    share = MemoryShare(MemoryBudget(1_000_000))
    made = Relay(legs[CLIENT], legs[SERVER], direction, share, lambda: None, lambda seconds: None)
    return made, wires[CLIENT], wires[SERVER]


async def test_what_cannot_be_read_ends_the_connection() -> None:
    made, _, server = relay(Strict(), HEADER + SYNC, SYNC + b"\xff" * 12 + SYNC, SYNC)
    with pytest.raises(FramingError) as raised:
        await made.run()
    assert b"".join(server.sent) == HEADER + SYNC + SYNC
    assert raised.value.received == b"\xff" * 12 + SYNC


async def test_what_the_passage_finds_wrong_ends_it_after_what_has_passed() -> None:
    passage = Strict()
    passage.error = ConnectionForced("no")
    made, _, server = relay(passage, HEADER + SYNC, SYNC)
    with pytest.raises(ConnectionForced):
        await made.run()
    assert b"".join(server.sent) == HEADER + SYNC


async def test_a_refusal_ends_it() -> None:
    passage = Strict()
    passage.refusal = ConnectionForced("refused")
    made, _, _ = relay(passage, HEADER + SYNC)
    with pytest.raises(ConnectionForced, match="refused"):
        await made.run()


async def test_a_fault_of_ours_ends_it_too() -> None:
    passage = Strict()
    passage.error = ValueError("on purpose")
    made, _, server = relay(passage, HEADER + SYNC, SYNC)
    with pytest.raises(ValueError, match="on purpose"):
        await made.run()
    assert b"".join(server.sent) in (b"", HEADER)


async def test_answers_go_back_and_nothing_is_read_while_it_is_full() -> None:
    passage = Strict()
    passage.output[CLIENT] = b"answer"
    passage.fullness = 1
    made, client, server = relay(passage, HEADER + SYNC, SYNC)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await trio.testing.wait_all_tasks_blocked()
        assert client.sent == [b"answer"]
        assert b"".join(server.sent) == HEADER + SYNC
        made.make_room()
        await trio.testing.wait_all_tasks_blocked()
        assert len(client.chunks) == 1
        passage.fullness = 0
        made.make_room()
    assert b"".join(server.sent) == HEADER + 2 * SYNC
    assert [frame.name for frame in passage.frames] == ["execution.sync"] * 2


async def test_a_frame_that_is_not_whole_goes_no_further() -> None:
    made, _, server = relay(Strict(), HEADER + SYNC[:5])
    await made.run()
    assert b"".join(server.sent) == HEADER


async def test_a_large_chunk_is_looked_at_in_pieces() -> None:
    passage = Strict()
    made, _, server = relay(passage, HEADER, SYNC * 5000)
    await made.run()
    assert passage.turns > 3
    assert b"".join(server.sent) == HEADER + SYNC * 5000
    assert len(passage.frames) == 5000


async def test_a_source_that_is_gone() -> None:
    class Gone(Wire):
        async def receive(self) -> bytes:
            raise TransportBroken("reset by the peer")

    made, _, _ = relay(Strict())
    made.source.transport = Gone()
    with pytest.raises(TransportBroken):
        await made.run()


async def test_nothing_is_taken_while_it_is_paused() -> None:
    made, _, server = relay(Strict(), HEADER, SYNC, SYNC)
    made.pause()
    made.pause()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(made.run)
        await trio.testing.wait_all_tasks_blocked()
        assert made.is_paused
        assert made.is_unread
        assert server.sent == []
        made.resume()
        made.resume()
    assert not made.is_unread
    assert b"".join(server.sent) == HEADER + SYNC + SYNC


async def test_the_passage_may_be_replaced_before_each_chunk() -> None:
    first, second = Strict(), Strict()
    made, _, _ = relay(first, HEADER + SYNC, SYNC)
    made.direction._begin = lambda: setattr(made, "passage", second) if first.frames else None
    await made.run()
    assert len(first.frames) == len(second.frames) == 1


class Open:
    """A passage that need not read: all passes, as it came."""

    must_read = relays_unseen = False

    def __init__(self, leg: Amqp010Leg) -> None:
        self.leg = leg
        self.output: bytes | memoryview = b""

    def take(self, sender: Peer, frames: list[Frame], now: float) -> None:
        self.output = self.leg.reader.taken

    def take_output(self, to: Peer) -> bytes | memoryview:
        output, self.output = self.output, b""
        return output


def fail(*arguments: object) -> bool:
    raise ZeroDivisionError


def unread(failures: list[Exception], **broken: Callable[..., Any]) -> Amqp010Direction:
    """A direction whose callbacks fail as they are `broken`."""
    legs = {peer: Amqp010Leg(peer, Wire()) for peer in Peer}
    callbacks: dict[str, Callable[..., Any]] = {
        "begin": lambda: None,
        "note": lambda is_server, data, began: None,
        "greet": lambda sender, header: True,
        "on_violation": lambda sender, error: None,
        "on_fault": lambda sender, failure: failures.append(failure),
    }
    return Amqp010Direction(legs[CLIENT], legs[SERVER], Open(legs[CLIENT]), **(callbacks | broken))


def relayed(direction: Amqp010Direction, data: bytes) -> bytes:
    """What a relay sends on of some bytes."""
    try:
        unseen = direction.take(data)
        output = direction.passage.take_output(SERVER) if unseen is None else unseen
        return bytes(direction.finish(output, 0.0))
    except ZeroDivisionError as failure:
        return bytes(direction.recover(failure) or b"")


async def test_nothing_is_lost_where_what_notes_it_fails() -> None:
    failures: list[Exception] = []
    direction = unread(failures, note=fail)
    assert relayed(direction, HEADER) == HEADER
    assert relayed(direction, SYNC) == SYNC
    assert relayed(direction, SYNC) == SYNC
    assert len(failures) == 1


async def test_nothing_is_lost_where_the_greeting_fails() -> None:
    failures: list[Exception] = []
    direction = unread(failures, greet=fail)
    assert relayed(direction, HEADER + SYNC) == HEADER + SYNC
    assert relayed(direction, SYNC) == SYNC
    assert len(failures) == 1


async def test_an_answer_to_close_is_found_behind_pieces_that_no_relay_has_taken() -> None:
    direction = unread([])
    direction.take(HEADER)
    direction.take(SYNC * 5000)
    direction._source.transport = Wire(method(ConnectionCloseOk())[5:])
    leg = direction._source
    leg.connection.state = ConnectionState.CLOSED_BY_SERVER
    direction._data += method(ConnectionCloseOk())[:5]
    leg.unfed = direction.take_unfed()
    assert len(leg.unfed) > 10_000
    assert direction.take_unfed() == b""
    await leg.linger()
    assert leg.is_closed
    assert leg.reader.error is None
