"""A session that fails, or is ended, at each place where a relay waits while its connection goes to and fro.

A client beside it, whose connection is with the same pump, notices nothing.
"""

from __future__ import annotations

import gc
import types
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Generator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.transitions import SERVER
from amqproxy.proxy.session.ownership import Ownership
from amqproxy.proxy.session.parked_session import ParkedSession
from amqproxy.proxy.session.relay import Relay
from amqproxy.proxy.session.session import Session
from amqproxy.pump.pumps import Pumps, are_available
from tests.proxy.recording_tap import Audience
from tests.proxy.stage import OPEN, Stage, staged
from tests.pump.rig import new_pumps
from tests.transcripts.words import octets, words

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
DELIVER = "1: basic.deliver, 1: header 5, 1: body 5"
MOST_FRAMES = 3
MOST_STEPS = 500


def open_descriptors() -> Counter[str]:
    """Count the sockets, pipes and eventfds of this process; another thread may open files meanwhile."""
    found: Counter[str] = Counter()
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found[str(descriptor.readlink())] += 1
    return Counter({target: number for target, number in found.items() if not target.startswith("/")})


def left_open(before: Counter[str]) -> Counter[str]:
    """Return what was opened since, and is open even when garbage is collected."""
    if open_descriptors() - before:
        gc.collect()
    return open_descriptors() - before


@pytest.fixture
def pumps() -> Pumps:
    """One pump, which gives back after a few frames."""
    return new_pumps(0, most_frames=MOST_FRAMES, first_chunks=1, most_chunks=1)


@asynccontextmanager
async def two_clients(pumps: Pumps) -> AsyncIterator[tuple[Stage, Stage]]:
    """Two sessions that share a pump."""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(pumps.run)
        async with staged(OPEN, pumps=pumps) as stage, staged(OPEN, pumps=pumps) as beside:
            yield stage, beside
            for each in (stage, beside):
                each.client.socket.close()
                each.broker.socket.close()
            with trio.fail_after(1000):
                await stage.is_over.wait()
                await beside.is_over.wait()
        assert pumps.connections == 0
        nursery.cancel_scope.cancel()


async def converse(stage: Stage, beside: Stage) -> None:
    """Traffic of both, however the first one ends; the second one gets all of its own, in order."""
    for turn in range(3):
        for actor, what in ((stage.client, PUBLISH), (stage.broker, DELIVER)):
            with suppress(OSError):
                actor.perform(what)
            await wait_all_tasks_blocked()
        await beside.play(f">> {PUBLISH}\n<< {DELIVER}")
        if turn == 1:
            with suppress(OSError):
                stage.client.perform("1: queue.declare")
            await beside.play(">> 1: queue.declare\n<< 1: queue.declare-ok")
    await trio.sleep(100)


class Steps:
    """Acts once, before a victim's relay goes on after it has waited for the `number`th time."""

    def __init__(self, number: int, act: Callable[[], object]) -> None:
        self._left = number
        self._act = act
        self.has_acted = False

    @types.coroutine
    def watch(self, running: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Run a coroutine, step by step."""
        step, value = running.send, None
        while True:
            try:
                waited_for = step(value)
            except StopIteration as end:
                return end.value
            try:
                value = yield waited_for
                step = running.send
            except BaseException as error:  # noqa: BLE001 - for what waits, as it came
                step, value = running.throw, error  # type: ignore[assignment]
                continue
            self._left -= 1
            if not self._left:
                self.has_acted = True
                try:
                    self._act()
                except Exception as error:  # noqa: BLE001 - thrown into what waits
                    step, value = running.throw, error  # type: ignore[assignment]


def watch(stage: Stage, steps: Steps, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the relays of a session watched."""
    run = Relay.run

    async def watched(self: Relay, received: bytes = b"") -> Any:
        if self.source.transport.socket in stage._ours:  # type: ignore[attr-defined]
            return await steps.watch(run(self, received))
        return await run(self, received)

    monkeypatch.setattr(Relay, "run", watched)


def fail(session: Session) -> None:
    raise RuntimeError("injected")


def pause(session: Session) -> None:
    session.pause()
    session.resume()


ENDINGS: dict[str, Callable[[Session], object]] = {
    "a failure": fail,
    "no memory": lambda session: (_ for _ in ()).throw(MemoryError()),
    "an operator closes it": lambda session: session.close("x"),
    "aborted": lambda session: session.abort("x"),
    "a silent peer": lambda session: session.disconnect(SERVER, "x"),
    "a drain": lambda session: session.drain(),
}
CHANGES: dict[str, Callable[[Session], object]] = {
    "recalled": lambda session: session.recall(),
    "a tap": lambda session: session.apply_tap(Audience()),
    "a pause": pause,
    "a heartbeat": lambda session: session.send_heartbeat(),
}


@pytest.mark.parametrize("act", ENDINGS.values(), ids=ENDINGS.keys())
async def test_it_ends_at_any_step(
    act: Callable[[Session], object], pumps: Pumps, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    before = open_descriptors()
    for number in range(1, MOST_STEPS):
        with capture_logs(), monkeypatch.context() as patch:
            async with two_clients(pumps) as (stage, beside):
                steps = Steps(number, lambda stage=stage: act(stage.session))  # type: ignore[misc]
                watch(stage, steps, patch)
                await converse(stage, beside)
                if steps.has_acted:
                    assert stage.is_over.is_set()
                    assert stage.is_closed
        assert not left_open(before)
        if not steps.has_acted:
            break
    assert 10 < number < MOST_STEPS - 1


@pytest.mark.parametrize("act", CHANGES.values(), ids=CHANGES.keys())
async def test_it_goes_on_whatever_is_done_at_any_step(
    act: Callable[[Session], object], pumps: Pumps, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(1, MOST_STEPS):
        with capture_logs(), monkeypatch.context() as patch:
            async with two_clients(pumps) as (stage, beside):
                steps = Steps(number, lambda stage=stage: act(stage.session))  # type: ignore[misc]
                watch(stage, steps, patch)
                await converse(stage, beside)
                stage.client.look()
                stage.broker.look()
                assert bytes(stage.client.seen) == bytes(stage.broker.said)
                heartbeats = octets("heartbeat")
                assert bytes(stage.broker.seen).replace(heartbeats, b"") == bytes(stage.client.said)
        if not steps.has_acted:
            break
    assert 10 < number < MOST_STEPS - 1


# --- what may fail besides


class FailingCall:
    """Fails once, the `number`th time that it is called while it is armed."""

    def __init__(self, number: int) -> None:
        self._left = number
        self.is_armed = self.has_failed = False

    def instead_of(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def called(*args: Any, **named: Any) -> Any:
            self._left -= self.is_armed
            if self.is_armed and not self._left:
                self.has_failed = True
                raise MemoryError("injected")
            return function(*args, **named)

        return called


PLACES: list[tuple[object, str]] = [
    (Ownership, "_pumpable"),
    (Ownership, "_accept"),
    (Ownership, "go_on"),
    (Session, "_park"),
    (ParkedSession, "of"),
    (ParkedSession, "parts"),
    (Pumps, "take"),
    (Pumps, "note_return"),
]


@pytest.mark.parametrize(("owner", "name"), PLACES, ids=[name for _, name in PLACES])
async def test_a_step_of_the_hand_over_fails(
    owner: object, name: str, pumps: Pumps, autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    gc.collect()
    before = open_descriptors()
    for number in range(1, MOST_STEPS):
        failing = FailingCall(number)
        with capture_logs() as log, monkeypatch.context() as patch:
            patch.setattr(owner, name, failing.instead_of(getattr(owner, name)))
            async with two_clients(pumps) as (stage, beside):
                for _ in range(4):
                    for actor, what in ((stage.client, PUBLISH), (stage.broker, DELIVER)):
                        failing.is_armed = True
                        with suppress(OSError):
                            actor.perform(what)
                        await wait_all_tasks_blocked()
                        failing.is_armed = False
                    await beside.play(f">> {PUBLISH}\n<< {DELIVER}")
                await trio.sleep(100)
                await beside.play(f">> {PUBLISH}\n<< {DELIVER}")
                if failing.has_failed:
                    assert stage.is_over.is_set(), words(bytes(stage.client.seen))
                    assert [each for each in log if each["log_level"] == "error"]
        assert not left_open(before)
        if not failing.has_failed:
            break
    assert 1 < number < MOST_STEPS - 1
