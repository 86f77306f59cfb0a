"""What both legs are sent, know, and show to taps."""

from __future__ import annotations

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import ConnectionHeartbeat, SessionDetach
from amqproxy.amqp010.frame import Frame, encode_method
from amqproxy.amqp010.methods import Method
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.interception.legs import Legs
from amqproxy.proxy.amqp010.interception.path import Path
from amqproxy.proxy.interception.queued_bytes import QueuedBytes
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage

SYNC = encode_method(1, ExecutionSync())


def legs_of(stage: Amqp010Stage, met: list[tuple[Peer, int, Method]] | None = None, *, is_tapped: bool = True) -> Legs:
    noted = met if met is not None else []
    return Legs(stage.legs, lambda *each: noted.append(each), lambda *each: None, is_tapped=is_tapped)


def path() -> Path:
    return Path(CLIENT, QueuedBytes(MemoryShare(MemoryBudget())))


def test_frames_go_on_and_count_on_both_legs() -> None:
    legs = legs_of(Amqp010Stage())
    assert legs.next_position(SERVER, CLIENT, 1) == 0
    legs.send(path(), [Frame(SYNC)])
    assert legs.take_output(SERVER) == SYNC
    assert legs.take_output(SERVER) == b""
    assert (legs.next_position(SERVER, CLIENT, 1), legs.next_position(CLIENT, CLIENT, 1)) == (1, 0)
    assert legs.near(SERVER, CLIENT, 1) == 1
    assert legs.next_position(SERVER, CLIENT, 9) is None
    assert legs.near(SERVER, CLIENT, 9) == 0
    [(note, chunk)] = legs.take_passed(CLIENT)
    assert (note.leg, chunk.data, chunk.command_ids) == ("", SYNC, [0])
    assert legs.take_passed(CLIENT) == []


def test_our_own_frames() -> None:
    met: list[tuple[Peer, int, Method]] = []
    legs = legs_of(Amqp010Stage(), met)
    legs.send_own(CLIENT, 1, ExecutionSync())
    legs.send_own(CLIENT, 1, SessionDetach(b"s"))
    legs.send_own(SERVER, 0, ConnectionHeartbeat())
    assert legs.take_output(CLIENT) == SYNC + encode_method(1, SessionDetach(b"s"))
    assert met == [(SERVER, 1, SessionDetach(b"s"))]
    assert [note.leg for note, _ in legs.take_passed(SERVER)] == ["client", "client"]
    assert [note.leg for note, _ in legs.take_passed(CLIENT)] == ["upstream"]


def test_nothing_is_kept_for_taps_where_there_are_none() -> None:
    legs = legs_of(Amqp010Stage(), is_tapped=False)
    legs.send(path(), [Frame(SYNC)])
    assert legs.take_passed(CLIENT) == []


def test_what_is_wrong_in_a_session_is_not_ours_to_judge() -> None:
    legs = legs_of(Amqp010Stage())
    legs.receive(CLIENT, SERVER, Frame(encode_method(1, SessionDetach(b"another"))))
