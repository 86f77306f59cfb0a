"""Whatever a live broker sends, a player stays in one piece, and comes to an end."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BY_NAME, Method
from amqproxy.amqp091.wire import Table
from amqproxy.capture.decode import read_decoded
from amqproxy.replay.broker_link import NEVER, Life
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.replay_copy import AT_ONCE, PlaySettings, ReplayCopy
from amqproxy.replay.result import ReplayResult
from amqproxy.replay.steps import CommandSent, Step
from amqproxy.replay.target import Target
from tests.example_count import example_count
from tests.replay.playing import CAPTURES

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    "b": st.booleans(),
    "o": st.integers(0, 255),
    "h": st.integers(0, 600),
    "l": st.integers(0, 5000),
    "q": st.integers(0, 5),
    "s": st.sampled_from(["", "q", "amq.gen-1"]),
    "u": st.sampled_from(["", "ctag1.x", "amq.gen-1"]),
    "S": st.sampled_from([b"", b"PLAIN", b"AMQPLAIN"]),
    "F": st.just(Table()),
}


@st.composite
def commands(draw: st.DrawFn) -> Command:
    kind: type[Method] = draw(st.sampled_from(list(BY_NAME.values())))
    method = kind(*[draw(VALUES[letter]) for letter in kind.layout.decode()])
    channel = 0 if kind.class_id == 10 else draw(st.integers(0, 2))
    return Command(channel, method, body=draw(st.sampled_from([b"", b"body"])) if kind.carries_content else b"")


def answers(steps: list[Step]) -> list[Command]:
    return [each.command for each in steps if isinstance(each, CommandSent) and each.sender == "server"]


@pytest.mark.parametrize("name", ["confirms.pcapng", "publish-get-ack.pcapng", "consume-large.pcapng"])
@settings(max_examples=example_count(25), suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_it_takes_what_comes(name: str, data: st.DataObject) -> None:
    """The recorded answers, with others between them, some left out, cut anywhere."""
    steps = list(steps_of(read_decoded(CAPTURES / name)))
    sent = b""
    for each in answers(steps):
        if data.draw(st.integers(0, 9)) == 0:
            sent += data.draw(commands()).encode(4096)
        if data.draw(st.integers(0, 9)):
            sent += b"".join([frame.raw for frame in each.frames])
    if data.draw(st.integers(0, 4)) == 0:
        sent += b"\x01rubbish"
    result = ReplayResult()
    copy = ReplayCopy(PlaySettings(target=Target(), speed=AT_ONCE, timeout=1.0), result, 0.0)
    copy.extend(steps)
    copy.end()
    now = copy.advance(0.0)
    (player,) = copy.players.values()
    assert player.must_dial
    now = 0.0
    player.connected(now)
    for _ in range(1000):
        if player.life is Life.CONNECTED and sent:
            size = data.draw(st.integers(1, len(sent)))
            player.receive(sent[:size], now)
            sent = sent[size:]
        until = copy.advance(now)
        if copy.is_done:
            break
        now = now + 0.001 if sent and player.life is Life.CONNECTED else min(until, now + 1.0)
        assert until is not NEVER or sent
    assert copy.is_done
    copy.finish(now)
    copy.report_rest()
    assert result.summary()["connections"] == 1
