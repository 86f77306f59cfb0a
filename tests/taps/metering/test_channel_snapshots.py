"""The state of a session with many channels is read in several turns, and no frame passes meanwhile."""

from __future__ import annotations

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.methods import BasicPublish, QueueDeclareOk
from amqproxy.proxy import turns
from amqproxy.proxy.turns import TurnQueue
from amqproxy.taps.tap import TappedSession
from amqproxy.taps.trace.snapshot import ConnectionSnapshot
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import OPEN, Stage, staged
from tests.taps.trace.traced import frames_of


class Joining(Audience):
    """Audience that notes states, with the numbers of their channels, and joins when `joins` is raised."""

    def saw_snapshot(self, session: TappedSession, snapshot: ConnectionSnapshot) -> None:
        self.seen.append(f"state of {[each.number for each in snapshot.channels]}")


class Held:
    """Event on which the second of a session's turns waits: by then it has read the first of its channels."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(turns, "QUANTUM", 0.0)
        wait, self.event, self.count = TurnQueue.wait, trio.Event(), 0

        async def held(queue: TurnQueue) -> None:
            self.count += 1
            if self.count == 2:
                await self.event.wait()
            await wait(queue)

        monkeypatch.setattr(TurnQueue, "wait", held)


def joined(stage: Stage, tap: Joining, monkeypatch: pytest.MonkeyPatch) -> Held:
    """Let the tap join, with sessions that read one channel in a turn, and hold the first of them."""
    tap.seen.clear()
    tap.joins += 1
    return Held(monkeypatch)


PUBLISH = b"".join(frame.raw for frame in frames_of(1, BasicPublish(), body=b"x"))
REPLY = b"".join(frame.raw for frame in frames_of(1, QueueDeclareOk("q", 0, 0)))
SHOWN = ["client basic.publish", "client 2", "client 3"]


async def test_frames_of_both_peers_wait_for_the_state(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Joining()
    async with staged(tap=tap) as stage:
        await stage.play(f"{OPEN}\n>> 1: queue.declare")
        held = joined(stage, tap, monkeypatch)
        stage.client.say(PUBLISH)
        stage.broker.say(REPLY)
        await wait_all_tasks_blocked()
        assert tap.seen == []
        held.event.set()
        await wait_all_tasks_blocked()
        assert tap.seen[0] == "state of [1, 2]"
        assert sorted(tap.seen[1:]) == sorted([*SHOWN, "server queue.declare-ok"])


async def test_a_change_from_outside_lets_the_state_be_read_again(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Joining()
    async with staged(tap=tap) as stage:
        await stage.play(OPEN)
        held = joined(stage, tap, monkeypatch)
        stage.client.say(PUBLISH)
        await wait_all_tasks_blocked()
        traffic = stage.session.traffic
        assert traffic is not None
        traffic.apply_tap()
        held.event.set()
        await wait_all_tasks_blocked()
        assert tap.seen == ["state of [1, 2]", *SHOWN]
        assert held.count > 3


async def test_a_session_that_is_paused_meanwhile_shows_its_state_and_waits(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    tap = Joining()
    async with staged(tap=tap) as stage:
        await stage.play(OPEN)
        held = joined(stage, tap, monkeypatch)
        stage.client.say(PUBLISH)
        await wait_all_tasks_blocked()
        traffic = stage.session.traffic
        assert traffic is not None
        traffic.pause()
        held.event.set()
        await wait_all_tasks_blocked()
        assert tap.seen == ["state of [1, 2]"]
        traffic.resume()
        await wait_all_tasks_blocked()
        assert tap.seen == ["state of [1, 2]", *SHOWN]


async def test_without_a_state_frames_do_not_wait(autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch) -> None:
    tap = Joining()
    async with staged(tap=tap) as stage:
        await stage.play(OPEN)
        joined(stage, tap, monkeypatch)
        traffic = stage.session.traffic
        assert traffic is not None
        monkeypatch.setattr(type(traffic), "_has_state", False)
        stage.client.say(PUBLISH)
        await wait_all_tasks_blocked()
        assert tap.seen == SHOWN
