"""One direction alone: what it sends on, how it ends, and what it holds."""

import socket
from collections.abc import Sequence

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.errors import ProtocolError, ResourceError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.proxy.amqp091.direction import Amqp091Direction
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.proxy.session.relay import DirectionEnding, Relay
from amqproxy.proxy.turns import LONG, QUANTUM
from amqproxy.rules.context import Client
from amqproxy.sockets.transport import LEAST_READ, MOST_READ, SocketTransport, TransportBroken
from tests.proxy.legs import Script, leg_in
from tests.transcripts.words import octets, words

OPENING = "1: channel.open"


class Direction:
    """What the client sends, relayed to a server."""

    def __init__(self, *lines: bytes | None, memory: int = 1_000_000) -> None:
        client, _ = leg_in(ConnectionState.OPEN, CLIENT, *lines)
        server, self.server = leg_in(ConnectionState.OPEN, SERVER)
        self.passage = PassThrough({CLIENT: client, SERVER: server}, Client(session=1), [])
        self.passage.ask_for_frames()
        self.share = MemoryShare(MemoryBudget(memory))
        self.followed_up = 0
        self.seconds: list[float] = []
        self.noted: list[tuple[bool, bytes]] = []
        self.shown: list[str] = []
        self.direction = Amqp091Direction(client, self.passage, self._note, self._show)
        self.relay = Relay(client, server, self.direction, self.share, self._follow_up, self.seconds.append)

    def _note(self, is_server: bool, data: bytes | memoryview, began: float) -> None:
        self.noted.append((is_server, bytes(data)))

    def _show(self, sender: Peer, frames: Sequence[Frame]) -> None:
        self.shown.append(f"{sender} {words(b''.join(frame.raw for frame in frames))}")

    def _follow_up(self) -> None:
        self.followed_up += 1

    def sent(self) -> str:
        return words(self.server.told)


async def test_chunks_pass_until_the_source_closes_its_half() -> None:
    direction = Direction(octets(OPENING), octets("heartbeat, 1: basic.publish, 1: header 0"), octets("heartbeat"), b"")
    assert await direction.relay.run() is DirectionEnding.EOF
    assert direction.sent() == f"{OPENING}, heartbeat, 1: basic.publish, 1: header 0, heartbeat"
    assert direction.followed_up == 1, "only the first chunk has a frame that changes the connection"
    assert len(direction.seconds) == 3


async def test_what_the_passage_does_not_take_is_shown_while_there_are_taps() -> None:
    publish = octets("1: basic.publish, 1: header 4, 1: body 4")
    direction = Direction(octets(OPENING), octets("heartbeat") + publish[:9], publish[9:], b"")
    direction.passage.is_tapped = True
    direction.passage.ask_for_frames()
    assert await direction.relay.run() is DirectionEnding.EOF
    assert direction.followed_up == 1
    assert direction.shown == ["client heartbeat", f"client {words(publish)}"]


@pytest.mark.parametrize("wrong", ["connection.tune-ok", "0: basic.publish"])
async def test_what_comes_before_an_error_is_sent_on(wrong: str) -> None:
    direction = Direction(octets(f"heartbeat, {OPENING}, {wrong}, heartbeat"))
    with pytest.raises(ProtocolError):
        await direction.relay.run()
    assert direction.sent() == f"heartbeat, {OPENING}"


async def test_the_frame_that_is_wrong_is_known() -> None:
    direction = Direction(octets(f"{OPENING}, connection.tune-ok"))
    with pytest.raises(ProtocolError):
        await direction.relay.run()
    assert direction.direction.culprit is not None
    assert direction.direction.culprit.method.name == "connection.tune-ok"


async def test_a_source_that_breaks() -> None:
    direction = Direction(octets("heartbeat"), None)
    with pytest.raises(TransportBroken):
        await direction.relay.run()
    assert direction.sent() == "heartbeat"


async def test_a_target_that_takes_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    async def send(_: Script, data: bytes | memoryview) -> None:
        raise TransportBroken("reset by the peer")

    monkeypatch.setattr(Script, "send", send)
    assert await Direction(octets("heartbeat")).relay.run() is DirectionEnding.TARGET_GONE


async def test_an_incomplete_frame_is_counted_while_it_is_held() -> None:
    publish = octets("1: basic.publish, 1: header 20000, 1: body 20000")
    direction = Direction(octets(OPENING), publish[:15_000], publish[15_000:])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(direction.relay.run)
        await wait_all_tasks_blocked()
        assert direction.share.used == 0
        assert direction.server.told.endswith(publish)
        nursery.cancel_scope.cancel()


async def test_a_frame_for_which_there_is_no_memory_is_refused() -> None:
    publish = octets("1: basic.publish, 1: header 20000, 1: body 20000")
    direction = Direction(octets(OPENING), publish[:15_000], memory=10_000)
    with pytest.raises(ResourceError):
        await direction.relay.run()
    assert 14_000 < direction.share.used <= 15_000


async def test_reading_stops_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    direction = Direction(octets(OPENING), octets("heartbeat"))
    waits = [True]
    monkeypatch.setattr(PassThrough, "is_full", lambda passage, sender: waits[0])
    direction.passage.relays_unseen = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(direction.relay.run)
        await wait_all_tasks_blocked()
        assert direction.sent() == OPENING
        direction.relay.make_room()
        await wait_all_tasks_blocked()
        assert direction.sent() == OPENING
        waits[0] = False
        direction.relay.make_room()
        await wait_all_tasks_blocked()
        assert direction.sent() == f"{OPENING}, heartbeat"
        nursery.cancel_scope.cancel()


async def test_an_error_is_not_held_up_by_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    direction = Direction(octets(f"{OPENING}, connection.tune-ok"))
    monkeypatch.setattr(PassThrough, "is_full", lambda passage, sender: True)
    direction.passage.relays_unseen = False
    with trio.fail_after(1), pytest.raises(ProtocolError):
        await direction.relay.run()


async def test_less_is_read_at_a_time_while_processing_it_takes_long() -> None:
    """Such as for a filter over bodies, which decodes 29,000 frames of one read: others would wait 0.1 s for them."""
    ours, theirs = (SocketTransport(each) for each in socket.socketpair())
    direction = Direction(b"")
    direction.relay.source.transport = ours
    for seconds, most in ((LONG / 2, MOST_READ), (2 * LONG, LEAST_READ), (QUANTUM, LEAST_READ), (0.0, 2 * LEAST_READ)):
        direction.relay._adapt_reads(seconds)
        assert ours._most_read == most
    for transport in (ours, theirs):
        await transport.aclose()
