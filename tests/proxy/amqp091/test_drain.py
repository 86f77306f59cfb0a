"""What passes while a session drains: one line a chunk, what came of it, and whether all is complete."""

from collections.abc import Iterable

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.errors import ConnectionForced
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.transitions import CLIENT, CONNECTION_CLOSING, HANDSHAKE, SERVER, ConnectionState
from amqproxy.proxy.amqp091.drain import Drain
from amqproxy.proxy.session.farewell import DrainStart, drain_start
from amqproxy.proxy.session.session_state import SessionState
from tests.proxy.legs import leg_in
from tests.transcripts.words import octets, words

FORCED = ConnectionForced("because")

DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"
RETURN = "1: basic.return, 1: header 0"
PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
NOTHING = ""


@pytest.mark.parametrize(
    ("before", "chunks"),
    [
        ("", []),
        ("", [(">>", PUBLISH, PUBLISH), ("<<", "1: basic.ack", "1: basic.ack"), ("<<", DELIVER, NOTHING)]),
        ("", [("<<", f"1: queue.declare-ok, {RETURN}, 1: basic.ack", "1: queue.declare-ok")]),
        ("", [("<<", f"{DELIVER}, 2: queue.declare-ok, 1: queue.declare-ok", "2: queue.declare-ok")]),
        ("", [("<<", "1: basic.deliver", NOTHING), ("<<", "1: header 5, 1: body 5", NOTHING)]),
        ("", [("<<", f"{RETURN}, connection.blocked, heartbeat", "connection.blocked, heartbeat")]),
    ],
)
def test_nothing_was_under_way(before: str, chunks: list[tuple[str, str, str]]) -> None:
    drain, readers = _drain("", "")
    assert drain.is_complete
    for sender, said, passed in chunks:
        assert _pass(drain, readers, sender, said) == passed
        assert drain.is_complete


@pytest.mark.parametrize("rest", ["1: header 5, 1: body 5", "1: header 0"])
def test_a_content_under_way_is_completed(rest: str) -> None:
    drain, readers = _drain("", "1: basic.deliver")
    assert not drain.is_complete
    assert _pass(drain, readers, "<<", "2: basic.deliver, 2: header 0, 2: basic.ack") == NOTHING
    assert not drain.is_complete
    assert _pass(drain, readers, "<<", f"{rest}, 1: basic.ack, {DELIVER}, 1: basic.ack") == f"{rest}, 1: basic.ack"
    assert drain.is_complete


def test_only_the_first_content_is_waited_for() -> None:
    drain, readers = _drain("1: basic.publish", "1: basic.deliver, 1: header 5")
    assert _pass(drain, readers, "<<", "1: body 5, 1: basic.deliver") == "1: body 5"
    assert not drain.is_complete
    flood = f"1: header 0, {PUBLISH}, 1: basic.publish, 2: basic.publish"
    assert _pass(drain, readers, ">>", flood) == flood
    assert drain.is_complete


def test_a_channel_that_closes_has_nothing_under_way() -> None:
    drain, readers = _drain("1: basic.publish", "")
    for reader in readers.values():
        reader.close_content_state(1)
    assert drain.is_complete


def test_the_client_is_sent_close_once_and_only_its_own_close_passes_then() -> None:
    drain, readers = _drain("1: basic.publish", "")
    assert drain.close(FORCED) is None
    assert not drain.is_leaving
    assert _pass(drain, readers, ">>", "1: header 0, 1: basic.publish, 1: header 0") != NOTHING
    assert words(drain.close(FORCED) or b"") == "connection.close 320"
    assert drain.is_leaving
    assert drain.close(FORCED) is None
    assert _pass(drain, readers, "<<", "connection.blocked") == NOTHING
    assert _pass(drain, readers, ">>", "connection.close") == "connection.close 200"


async def test_a_close_that_crosses_ours_is_answered_after_it() -> None:
    client, script = leg_in(ConnectionState.OPEN, CLIENT)
    connection = client.connection
    drain = Drain(client, {peer: FrameReader() for peer in (CLIENT, SERVER)})
    close = drain.close(FORCED)
    assert close is not None
    connection.receive(CLIENT, Frame(octets("connection.close")))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(_answer, drain)
        await wait_all_tasks_blocked()
        assert not script.told
        nursery.start_soon(drain.send_close, close)
    assert words(script.told) == "connection.close 320, connection.close-ok"
    connection.receive(CLIENT, Frame(octets("connection.close-ok")))
    assert await drain.is_answered()


async def _answer(drain: Drain) -> None:
    assert not await drain.is_answered()


@pytest.mark.parametrize(
    ("session", "connections", "start"),
    [
        (SessionState.DRAINING, ConnectionState, DrainStart.NOT_AGAIN),
        (SessionState.LEAVING, ConnectionState, DrainStart.NOT_AGAIN),
        (SessionState.DIALLING, ConnectionState, DrainStart.ABORT),
        (SessionState.TUNNELLING, ConnectionState, DrainStart.ABORT),
        (SessionState.RELAYING, set(HANDSHAKE) - {ConnectionState.OPENING, ConnectionState.OPEN}, DrainStart.ABORT),
        (SessionState.RELAYING, [ConnectionState.OPENING, ConnectionState.OPEN], DrainStart.DRAIN),
        (SessionState.RELAYING, CONNECTION_CLOSING, DrainStart.AWAIT_CLOSE),
    ],
)
def test_how_a_drain_begins(session: SessionState, connections: Iterable[ConnectionState], start: DrainStart) -> None:
    leg, _ = leg_in(ConnectionState.OPEN, CLIENT)
    for leg.connection.state in connections:
        assert drain_start(session, leg) is start


def _drain(client: str, server: str) -> tuple[Drain, dict[str, FrameReader]]:
    """A drain that begins when each has said so much, on channels 1 and 2."""
    readers = {CLIENT: FrameReader(), SERVER: FrameReader()}
    for reader in readers.values():
        reader.open_content_state(1)
        reader.open_content_state(2)
    readers[CLIENT].feed(octets(client) if client else b"")
    readers[SERVER].feed(octets(server) if server else b"")
    return Drain(leg_in(ConnectionState.OPEN, CLIENT)[0], readers), {">>": readers[CLIENT], "<<": readers[SERVER]}


def _pass(drain: Drain, readers: dict[str, FrameReader], arrow: str, said: str) -> str:
    sender = CLIENT if arrow == ">>" else SERVER
    frames = readers[arrow].feed(octets(said))
    return words(b"".join([frame.raw for frame in frames if drain.passes(sender, frame)]))
