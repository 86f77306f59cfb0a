"""What passes while a session drains: one line a chunk, what came of it, and whether all is complete."""

import pytest

from amqproxy.amqp091.frame_reader import FrameReader
from amqproxy.amqp091.transitions import CLIENT, SERVER
from amqproxy.proxy.drain import Drain
from tests.transcripts.words import octets, words

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
        reader.close_lane(1)
    assert drain.is_complete


def _drain(client: str, server: str) -> tuple[Drain, dict[str, FrameReader]]:
    """A drain that begins when each has said so much, on channels 1 and 2."""
    readers = {CLIENT: FrameReader(), SERVER: FrameReader()}
    for reader in readers.values():
        reader.open_content_state(1)
        reader.open_content_state(2)
    readers[CLIENT].feed(octets(client) if client else b"")
    readers[SERVER].feed(octets(server) if server else b"")
    return Drain(readers), {">>": readers[CLIENT], "<<": readers[SERVER]}


def _pass(drain: Drain, readers: dict[str, FrameReader], arrow: str, said: str) -> str:
    sender = CLIENT if arrow == ">>" else SERVER
    frames = readers[arrow].feed(octets(said))
    return words(b"".join([frame.raw for frame in frames if drain.passes(sender, frame)]))
