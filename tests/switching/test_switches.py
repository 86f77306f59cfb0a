"""New clients are led to the upstream that serves, present ones are told, and their messages follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from amqproxy.configuration.upstream_config import UpstreamConfig
from amqproxy.moving.move_job import JobReport, MovedQueue, MoveEnd, MoveJob, QueueReport, Report
from amqproxy.proxy.client_moves import MOVED
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.proxy.upstreams.member import Member
from amqproxy.rules.context import Client
from amqproxy.switching.phase import Phase, SwitchEvent
from amqproxy.switching.switch import Switch
from amqproxy.switching.switch_file import SwitchFile
from amqproxy.switching.switches import Switches, SwitchProgress
from amqproxy.taps.fleet_collectors import SwitchCounts

SWITCH = Switch(name="s", source="blue", target="green", rate=40.0)
QUEUE = MovedQueue("/", "q")


class PromptFile(SwitchFile):
    """One that is written in this thread, since the clock of these tests does not wait for others."""

    async def keep(self, switches: Iterable[Switch]) -> None:
        await trio.lowlevel.checkpoint()
        self.save(switches)


class Guest:
    """A session, which ends when it is told to, unless it is `stubborn`."""

    is_open = True
    unread_protocol = ""
    interceptor: Any = None

    def __init__(self, stage: Stage, number: int) -> None:
        self.stage = stage
        self.number = number
        self.told: list[float] = []
        self.is_stubborn = False

    def contained(self) -> Any:
        return nullcontext()

    def drain(self, reason: Any) -> None:
        assert reason is MOVED
        self.told.append(trio.current_time())
        if not self.is_stubborn:
            del self.stage.sessions[self.number]


class Stage:
    """Two groups, the sessions of clients, and moves that a test ends; `rules` are those that hold publishes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.groups = [UpstreamGroup(name, [Member(f"{name}:1")]) for name in ("blue", "green")]
        self.sessions: dict[int, Any] = {}
        self.rules: dict[str, Any] = {}
        self.jobs: list[MoveJob] = []
        self.may_move = trio.Event()
        self.declared = [QUEUE]
        self.switches = self.started()

    def started(self) -> Switches:
        return Switches(
            PromptFile(self.path / "switches.json"),
            lambda: self.groups,
            self.sessions,
            self.end_of,
            lambda vhost: self.declared,
            self,
            self.move,
        )

    def end_of(self, name: str) -> MoveEnd:
        return MoveEnd(upstream=UpstreamConfig(address=f"{name}:1"), user="u", password="p")

    def insert(self, rule: Any) -> None:
        self.rules[rule.name] = rule

    def withdraw(self, name: str) -> None:
        self.rules.pop(name, None)

    async def move(self, make: Callable[[], MoveJob], report: Callable[[Report], None], name: str) -> None:
        self.jobs.append(make())
        report(QueueReport(0, "moving", 5, 2))
        await self.may_move.wait()
        report(JobReport(is_done=True))

    def connect(self, count: int, **known: Any) -> list[str]:
        """Let clients come; return the groups that take them."""
        found = []
        for _ in range(count):
            number = len(found) + max(self.sessions, default=0) + 1
            self.sessions[number] = Guest(self, number)
            found.append(self.switches.divert(self.groups[0], Client(session=number, **known)).name)
        return found

    @property
    def phase(self) -> Phase:
        found = self.switches.get("s")
        assert found is not None
        return found.phase

    async def until(self, phase: Phase) -> None:
        with trio.fail_after(60):
            while self.phase is not phase:  # noqa: ASYNC110
                await trio.sleep(0.1)


@pytest.fixture
def stage(tmp_path: Path) -> Callable[[], Stage]:
    return lambda: Stage(tmp_path)


def test_the_reason_of_a_wait_names_its_queue() -> None:
    progress = SwitchProgress()
    assert progress.waiting_for([QUEUE]) == ""
    progress.note(QueueReport(0, "waits", 5, 2, "it is exclusive"))
    assert progress.waiting_for([QUEUE]) == "q: it is exclusive"
    progress.note(JobReport(text="green does not answer"))
    assert progress.waiting_for([QUEUE]) == "green does not answer"
    assert (progress.moved, progress.left) == (5, 2)


def test_messages_of_movers_that_were_killed_count() -> None:
    progress = SwitchProgress()
    for moved in (3, 5, 0, 2, 2, 1):
        progress.note(QueueReport(0, "moving", moved, 9))
    progress.note(QueueReport(1, "empty", 7))
    assert [progress.queues[place].moved for place in (0, 1)] == [8, 7]


async def test_clients_then_messages_and_back(stage: Callable[[], Stage], autojump_clock: MockClock) -> None:
    s = stage()
    assert s.connect(20) == ["blue"] * 20
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        began = trio.current_time()
        await s.switches.begin(SWITCH)
        assert s.connect(1) == ["green"]
        await s.until(Phase.MESSAGES_TO_TARGET)
        assert 0.4 <= trio.current_time() - began <= 1.5  # 20 clients at 40/s
        await trio.sleep(1)
        [job] = s.jobs
        assert (job.source.upstream.address, job.target.upstream.address, job.queues) == ("blue:1", "green:1", (QUEUE,))
        assert s.switches.progress("s").queues[0].moved == 5
        [counts] = s.switches.counts()
        assert counts == SwitchCounts("s", "messages to target", told=20, moved=5, left=2)
        s.may_move.set()
        await s.until(Phase.AT_TARGET)
        assert s.connect(1) == ["green"]
        assert len(s.sessions) == 2
        s.declared = [QUEUE, MovedQueue("/", "later")]
        await s.switches.turn("s", SwitchEvent.BACK)
        assert s.connect(1) == ["blue"]
        await s.until(Phase.AT_SOURCE)
        assert (s.jobs[1].source.upstream.address, len(s.jobs[1].queues)) == ("green:1", 2)
        assert len(s.sessions) == 1
        assert s.switches.counts() == [SwitchCounts("s", "at source", told=22, moved=10, left=2)]
        await s.switches.forget("s")
        assert list(s.switches) == []
        nursery.cancel_scope.cancel()


async def test_messages_wait_for_the_last_client(stage: Callable[[], Stage], autojump_clock: MockClock) -> None:
    s = stage()
    s.connect(2)
    s.sessions[1].is_stubborn = True
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        await s.switches.begin(SWITCH)
        await trio.sleep(5)
        assert (s.phase, s.jobs) == (Phase.CLIENTS_TO_TARGET, [])
        assert s.switches.counts()[0].clients == 1
        del s.sessions[1]
        await s.until(Phase.MESSAGES_TO_TARGET)
        nursery.cancel_scope.cancel()


async def test_only_the_clients_that_it_is_about_move(stage: Callable[[], Stage], autojump_clock: MockClock) -> None:
    s = stage()
    s.connect(3, address="10.0.0.1")
    s.connect(2, address="9.0.0.1")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        await s.switches.begin(
            Switch(name="s", source="blue", target="green", when='client.address == "10.0.0.1"', finds_queues=False)
        )
        await s.until(Phase.AT_TARGET)  # no queue, no move
        assert (len(s.sessions), s.jobs) == (2, [])
        nursery.cancel_scope.cancel()


async def test_many_clients_are_all_told_before_messages_move(
    stage: Callable[[], Stage], autojump_clock: MockClock
) -> None:
    s = stage()
    s.connect(1000)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        begun = await s.switches.begin(Switch(name="s", source="blue", target="green", rate=1000.0))
        assert len(s.switches.misplaced(begun)) == 1000
        await s.until(Phase.MESSAGES_TO_TARGET)
        assert s.sessions == {}
        assert s.switches._routed == {}
        nursery.cancel_scope.cancel()


async def test_a_client_belongs_to_the_first_switch_that_is_about_it(stage: Callable[[], Stage]) -> None:
    s = stage()
    s.connect(2, address="10.0.0.1")
    s.connect(3, address="9.0.0.1")
    some = await s.switches.begin(
        Switch(name="some", source="blue", target="green", when='client.address == "10.0.0.1"')
    )
    every = await s.switches.begin(Switch(name="every", source="blue", target="green"))
    assert (len(s.switches.misplaced(some)), len(s.switches.misplaced(every))) == (2, 3)
    assert s.connect(1, address="8.0.0.1") == ["green"]


async def test_a_restart_goes_on_where_it_was(stage: Callable[[], Stage], autojump_clock: MockClock) -> None:
    s = stage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        await s.switches.begin(Switch(name="s", source="blue", target="green", strict=True))
        await s.until(Phase.MESSAGES_TO_TARGET)
        nursery.cancel_scope.cancel()
    s.rules.clear()
    s.switches = s.started()
    assert list(s.rules) == ["switch s"]  # before the first client comes
    assert s.phase is Phase.CLIENTS_TO_TARGET
    assert s.connect(1) == ["green"]
    s.may_move.set()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        await s.until(Phase.AT_TARGET)
        nursery.cancel_scope.cancel()
    assert len(s.sessions) == 1
    assert s.started().get("s") == s.switches.get("s")


async def test_publishes_are_held_while_a_strict_switch_moves(
    stage: Callable[[], Stage], autojump_clock: MockClock
) -> None:
    s = stage()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(s.switches.run)
        await s.switches.begin(Switch(name="s", source="blue", target="green", strict=True))
        rule = s.rules["switch s"]
        assert (rule.when, rule.on_timeout) == ('upstream in ["green:1"]', "refuse")
        await s.until(Phase.MESSAGES_TO_TARGET)
        await s.switches.turn("s", SwitchEvent.BACK)
        assert s.rules["switch s"].when == 'upstream in ["blue:1"]'
        s.may_move.set()
        await s.until(Phase.AT_SOURCE)
        assert s.rules == {}
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("switch", "text"),
    [
        (Switch(name="s", source="red", target="green"), "there is no upstream `red`: there are blue, green"),
        (Switch(name="s", source="blue", target="blue"), "source and target are the same upstream"),
    ],
)
async def test_a_switch_that_cannot_be(switch: Switch, text: str, stage: Callable[[], Stage]) -> None:
    with pytest.raises(ValueError, match=text):
        await stage().switches.begin(switch)


async def test_a_switch_is_begun_once_and_forgotten_settled(stage: Callable[[], Stage]) -> None:
    s = stage()
    await s.switches.begin(SWITCH)
    with pytest.raises(ValueError, match="there is a switch `s` already: it is moving to green"):
        await s.switches.begin(SWITCH)
    with pytest.raises(ValueError, match="the switch is moving to green already"):
        await s.switches.turn("s", SwitchEvent.FORTH)
    with pytest.raises(ValueError, match="it can be forgotten when it is settled"):
        await s.switches.forget("s")


async def test_what_cannot_be_kept_is_not_in_force(stage: Callable[[], Stage], tmp_path: Path) -> None:
    s = stage()
    (tmp_path / "switches.json.new").mkdir()
    with pytest.raises(OSError, match="Is a directory"):
        await s.switches.begin(SWITCH)
    assert list(s.switches) == []
    assert s.connect(1) == ["blue"]
