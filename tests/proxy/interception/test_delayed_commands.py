"""What waits on a connection of AMQP 0-10, and goes on by turns: bounded, in order, and to the end.

`test_interceptor.py` has the same for 0-9-1.
"""

from __future__ import annotations

import itertools

import pytest

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import SessionFlush
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp091.errors import Scope
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.interception.delayed_commands import TURN
from amqproxy.proxy.memory_budget import MemoryBudget, MemoryShare
from amqproxy.rules.verdict import Close
from tests.proxy.amqp010.interception.amqp010_stage import Amqp010Stage, transfer

MATCH = 'match.method = "basic.publish"\n'
SENT = "=> 1 message.transfer destination=orders accept_mode=1 acquire_mode=0 body=hello"
DELAY = f'action = "fault"\n{MATCH}fault = {{kind = "delay", seconds = 1}}\n'
HOLD = f'action = "hold"\n{MATCH}timeout = 10\n'
REFUSED_HOLD = f'{HOLD}on_timeout = "refuse"\n'
SYNC = encode_method(1, ExecutionSync(sync=True))
SYNCED = "=> 1 execution.sync sync=true"
MANY = 5 * TURN


def turns(stage: Amqp010Stage) -> list[list[str]]:
    """What the peers get in each turn, until nothing is left to be done now."""
    heard = [stage.listen()]
    while stage.interceptor.next_deadline <= stage.now:
        stage.interceptor.tick(stage.now)
        heard.append(stage.listen())
    assert max(map(len, heard)) <= TURN + 1
    return heard


def flat(heard: list[list[str]]) -> list[str]:
    return list(itertools.chain.from_iterable(heard))


def flood(stage: Amqp010Stage, count: int = MANY) -> None:
    for _ in range(count):
        assert stage.feed(CLIENT, SYNC) == []


# --- one by one


def test_a_hold_that_is_refused_at_its_timeout() -> None:
    stage = Amqp010Stage(REFUSED_HOLD)
    assert stage.feed(CLIENT, transfer()) == []
    assert stage.wait(9) == []
    heard = stage.wait(1)
    assert "held by rule 'r', and not released in time" in heard[1]
    assert [verdict.marks for _, _, verdict in stage.interceptor.take_effects().refused] == [("r",)]


def test_release() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer() + transfer())
    [number] = stage.interceptor.waiting
    with pytest.raises(KeyError):
        stage.interceptor.release(number + 1, None, stage.now)
    stage.interceptor.release(number, None, stage.now)
    assert stage.listen() == [SENT]
    stage.interceptor.release_all(stage.now)
    assert stage.listen() == [SENT]
    assert stage.interceptor.waiting == {}


def test_a_turn_is_bounded() -> None:
    stage = Amqp010Stage(DELAY)
    attaching = "\n".join(
        f">> {n} session.attach name_=s{n}\n<< {n} session.attached name_=s{n}\n"
        f">> {n} session.command-point command_id=0 command_offset=0"
        for n in range(2, TURN + 5)
    )
    stage.say(attaching)
    for number in range(1, TURN + 5):
        stage.feed(CLIENT, transfer(channel=number))
    stage.interceptor.tick(stage.now + 1)
    assert len(stage.listen()) == TURN
    stage.interceptor.tick(stage.now + 1)
    assert len(stage.listen()) == 4


def test_nothing_goes_on_once_all_is_over() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer())
    stage.interceptor.end()
    assert stage.interceptor.waiting == {}
    assert stage.interceptor.next_deadline == float("inf")
    assert stage.interceptor.share.used == 0


# --- by turns


def paused() -> Amqp010Stage:
    stage = Amqp010Stage()
    stage.interceptor.pause_channel(1, stage.now)
    flood(stage)
    return stage


def test_what_waits_on_a_paused_channel_goes_on_by_turns_and_in_order() -> None:
    stage = paused()
    used = stage.interceptor.share.used
    stage.interceptor.resume_channel(1, stage.now)
    assert len(stage.listen()) == TURN
    assert stage.interceptor.next_deadline <= stage.now
    stage.feed(CLIENT, transfer())  # behind what still waits
    assert 0 < stage.interceptor.share.used < used
    heard = flat(turns(stage))
    assert heard[-1] == SENT
    assert set(heard[:-1]) == {SYNCED}
    assert stage.interceptor.is_transparent


def test_what_waits_behind_a_delayed_command_goes_on_by_turns() -> None:
    stage = Amqp010Stage(DELAY)
    stage.feed(CLIENT, transfer())
    flood(stage)
    stage.now += 1
    assert flat(turns(stage)) == [SENT, *MANY * [SYNCED]]


def test_what_waits_behind_a_limit_goes_on_by_turns() -> None:
    stage = Amqp010Stage('action = "limit"\nof = "messages"\nrate = 1\nburst = 1\n')
    stage.feed(CLIENT, transfer())
    stage.listen()
    stage.feed(CLIENT, transfer())
    flood(stage)
    stage.now += 2
    assert flat(turns(stage)) == [SENT, *MANY * [SYNCED]]


def test_what_waits_behind_a_held_command_goes_on_by_turns() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer())
    flood(stage)
    [number] = stage.interceptor.waiting
    stage.interceptor.release(number, None, stage.now)
    assert flat(turns(stage)) == [SENT, *MANY * [SYNCED]]


def test_what_waits_of_the_server_goes_on_by_turns() -> None:
    stage = Amqp010Stage('action = "fault"\nmatch.method = "basic.deliver"\nfault = {kind = "delay", seconds = 1}\n')
    stage.feed(SERVER, transfer(SERVER))
    for _ in range(MANY):
        assert stage.feed(SERVER, encode_method(1, SessionFlush(completed=True))) == []
    stage.now += 1
    heard = flat(turns(stage))
    assert "message.transfer" in heard[0]
    assert heard[1:] == MANY * ["<= 1 session.flush completed=true"]


def test_controls_behind_a_gathered_command_go_on_by_turns_before_what_came_later() -> None:
    stage = Amqp010Stage('action = "refuse"\nmatch.body = "none"\n')
    data = transfer(body=b"x" * 8000)
    first = int.from_bytes(data[2:4])
    assert stage.feed(CLIENT, data[:first]) == []
    for _ in range(MANY):
        assert stage.feed(CLIENT, encode_method(1, SessionFlush(completed=True))) == []
    heard = stage.feed(CLIENT, data[first:] + SYNC)
    assert len(heard) <= TURN + 1
    heard += flat(turns(stage))
    assert heard == heard[:1] + MANY * ["=> 1 session.flush completed=true"] + [SYNCED]
    assert stage.interceptor.is_transparent


def test_all_that_waits_is_released_by_turns() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer())
    flood(stage)
    stage.interceptor.release_all(stage.now)
    heard = [stage.listen()]
    while stage.interceptor.is_releasing:
        stage.interceptor.go_on_releasing(stage.now)
        heard.append(stage.listen())
    assert max(map(len, heard)) <= TURN
    assert flat(heard) == [SENT, *MANY * [SYNCED]]


def test_a_release_ends_though_the_sender_goes_on_with_what_has_to_wait() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer() + transfer() + SYNC)
    stage.interceptor.release_all(stage.now)
    heard = [stage.listen()]
    for _ in range(10):
        stage.feed(CLIENT, transfer())
        stage.interceptor.go_on_releasing(stage.now)
        heard.append(stage.listen())
    assert not stage.interceptor.is_releasing
    assert flat(heard)[:3] == [SENT, SENT, SYNCED], "what waited at its beginning has gone on"
    assert len(stage.interceptor.waiting) == 1


def test_a_connection_close_comes_behind_all_that_its_sender_has_sent() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer())
    flood(stage)
    stage.interceptor.pause_channel(1, stage.now)
    assert len(stage.say(">> connection.close reply_code=200")) == TURN
    assert len(stage.say(">> connection.heartbeat")) == TURN
    heard = flat(turns(stage))
    assert heard[-2:] == ["=> connection.close reply_code=200", "=> connection.heartbeat"]
    assert set(heard[:-2]) == {SYNCED}
    assert stage.say("<< connection.close-ok") == ["<= connection.close-ok"]


def test_a_hold_that_is_released_on_a_paused_channel() -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer())
    flood(stage)
    stage.interceptor.pause_channel(1, stage.now)
    [number] = stage.interceptor.waiting
    stage.interceptor.release(number, None, stage.now)
    assert flat(turns(stage)) == [SENT]
    assert stage.interceptor.paused_channels == [1]
    stage.interceptor.resume_channel(1, stage.now)
    assert flat(turns(stage)) == MANY * [SYNCED]


def test_a_channel_that_is_paused_again_while_its_queue_goes_on() -> None:
    stage = paused()
    stage.interceptor.resume_channel(1, stage.now)
    stage.interceptor.pause_channel(1, stage.now)
    assert len(flat(turns(stage))) == TURN
    stage.interceptor.resume_channel(1, stage.now)
    assert flat(turns(stage)) == (MANY - TURN) * [SYNCED]


def test_the_client_is_not_read_from_while_too_much_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = paused()
    stage.interceptor.resume_channel(1, stage.now)
    monkeypatch.setattr("amqproxy.proxy.interception.interceptor.MAX_HELD", 1000)
    assert stage.interceptor.is_full(CLIENT)
    turns(stage)
    assert not stage.interceptor.is_full(CLIENT)


# --- sessions that end meanwhile


NEXT = """
    >> 1 session.detach name_=s
    >> 1 session.attach name_=t
    >> 1 session.command-point command_id=0 command_offset=0
    >> 1 queue.declare queue=q
"""


def test_a_refused_hold_ends_the_session_but_not_the_next_in_its_queue() -> None:
    stage = Amqp010Stage(REFUSED_HOLD)
    stage.feed(CLIENT, transfer())
    flood(stage)
    assert stage.say(NEXT) == []
    stage.now += 10
    heard = flat(turns(stage))
    assert SYNCED not in heard
    assert heard[0] == "=> 1 session.detach name_=s"
    assert "<= 1 session.detached name_=s code=0" in heard
    stage.say("<< 1 session.detached name_=s code=0")
    assert flat(turns(stage)) == []
    stage.say(">> 1 session.detached name_=s code=0")
    assert stage.interceptor.share.used < 100_000


def test_the_next_session_of_a_channel_goes_on_by_turns_once_the_last_is_closed() -> None:
    stage = Amqp010Stage()
    stage.interceptor.close_channel(1, Close(Scope.CHANNEL, 406, "no"), stage.now)
    assert stage.listen()[0] == "=> 1 session.detach name_=s"
    assert stage.say(">> 1 session.detached name_=s code=0") == []
    stage.say(">> 1 session.attach name_=t\n>> 1 session.command-point command_id=0 command_offset=0")
    flood(stage)
    assert len(stage.say("<< 1 session.detached name_=s code=0")) == TURN
    heard = flat(turns(stage))
    assert set(heard) == {SYNCED}
    assert len(heard) == MANY + 2 - TURN


def test_the_next_session_of_a_channel_outlives_the_answer_to_the_detach_of_the_last() -> None:
    stage = Amqp010Stage()
    stage.interceptor.pause_channel(1, stage.now)
    assert stage.say(NEXT) == []
    flood(stage)
    stage.interceptor.resume_channel(1, stage.now)
    assert stage.listen()[:4] == [
        "=> 1 session.detach name_=s",
        "=> 1 session.attach name_=t",
        "=> 1 session.command-point command_id=0 command_offset=0",
        "=> 1 queue.declare queue=q",
    ]
    assert stage.say("<< 1 session.detached name_=s code=0")[-1:] == ["<= 1 session.detached name_=s code=0"]
    assert flat(turns(stage))[-1] == SYNCED
    assert stage.interceptor.share.used < 100_000


def test_what_waits_of_a_session_is_dropped_once_the_server_has_ended_it() -> None:
    stage = paused()
    assert stage.say(NEXT) == []
    assert stage.say("<< 1 session.detached name_=s code=1")[-1:] == ["<= 1 session.detached name_=s code=1"]
    heard = flat(turns(stage))
    assert SYNCED not in heard
    assert heard == [
        "=> 1 session.attach name_=t",
        "=> 1 session.command-point command_id=0 command_offset=0",
        "=> 1 queue.declare queue=q",
    ]


# --- what goes wrong meanwhile


def test_an_error_in_what_waits_ends_the_connection_once() -> None:
    share = MemoryShare(MemoryBudget())
    stage = Amqp010Stage('action = "refuse"\nmatch.method = "basic.publish"\nmatch.size.min = 100', share=share)
    stage.interceptor.pause_channel(1, stage.now)
    flood(stage, TURN + 10)
    stage.feed(CLIENT, transfer(body=b"x" * 50, content_length=10))
    flood(stage)
    stage.interceptor.resume_channel(1, stage.now)
    heard = flat(turns(stage))
    assert heard[: TURN + 10] == (TURN + 10) * [SYNCED]
    assert [line.split(" ")[1] for line in heard[-2:]] == ["connection.close", "connection.close"]
    assert SYNCED not in heard[TURN + 10 :]
    assert stage.interceptor.fault is not None
    assert stage.interceptor.is_over
    assert stage.interceptor.next_deadline == float("inf")
    stage.interceptor.end()
    assert share.used == 0


@pytest.mark.parametrize("peer", Peer)
def test_a_close_of_both_while_much_waits(peer: Peer) -> None:
    stage = Amqp010Stage(HOLD)
    stage.feed(CLIENT, transfer())
    flood(stage)
    closes = {CLIENT: ">> connection.close reply_code=200", SERVER: "<< connection.close reply_code=320"}
    stage.say(closes[peer])
    stage.say(closes[peer.other])
    heard = flat(turns(stage))
    assert "=> connection.close reply_code=200" in heard
    assert not stage.interceptor.is_releasing
    assert not stage.interceptor.is_full(CLIENT)
