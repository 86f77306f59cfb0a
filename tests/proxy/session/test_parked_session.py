"""Sessions of which next to nothing is kept while a pump has their connection."""

from __future__ import annotations

import gc
from collections.abc import Callable

import pytest
import trio
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.control.session_entries import channel_entries, connection_entry
from amqproxy.proxy.session.ownership import Owner
from amqproxy.proxy.session.parked_session import ParkedSession
from amqproxy.proxy.session.relay import Relay
from amqproxy.proxy.session.session import Session
from amqproxy.proxy.session.session_parts import SessionParts
from amqproxy.pump.pumps import IDLE_AFTER, are_available
from tests.proxy import stage as staging
from tests.proxy.recording_tap import Audience
from tests.proxy.session.collector import without_collector
from tests.proxy.stage import HANDSHAKE, OPEN, Stage, staged

pytestmark = pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"


@pytest.fixture(autouse=True)
def most_frames(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pump keeps a connection for as long as it may."""
    monkeypatch.setattr(staging, "frames_a_pump", 1_000_000)


def kept() -> int:
    """How many things there are that only sessions have which are not parked."""
    return sum(isinstance(each, (Relay, SessionParts)) for each in gc.get_objects())


async def become_idle(stage: Stage) -> None:
    await trio.sleep(3 * IDLE_AFTER)
    assert stage.session.is_parked


@pytest.mark.parametrize("script", [HANDSHAKE, OPEN])
async def test_a_connection_that_is_idle_keeps_no_task_and_no_parts(script: str, autojump_clock: MockClock) -> None:
    with without_collector():
        before = kept()
        async with staged(script) as stage:
            stage.session.recall()
            await wait_all_tasks_blocked()
            while_open = trio.lowlevel.current_statistics().tasks_living
            await become_idle(stage)
            await wait_all_tasks_blocked()
            assert trio.lowlevel.current_statistics().tasks_living == while_open - 1
            assert kept() == before
            assert stage.session.owner is Owner.PUMP


async def test_what_can_be_seen_of_it_is_the_same_and_is_not_kept(autojump_clock: MockClock) -> None:
    async with staged(f"{OPEN}\n>> 1: confirm.select\n<< 1: confirm.select-ok") as stage, staged(OPEN) as other:
        shown = connection_entry(stage.session), list(channel_entries([stage.session]))
        await become_idle(stage)
        await become_idle(other)
        for each in (stage, other):
            each.session.refresh()
        before = kept()
        for _ in range(3):
            assert (connection_entry(stage.session), list(channel_entries([stage.session]))) == shown
            assert connection_entry(other.session)["channels"] == 2
            assert stage.session.is_open
            assert not stage.session.is_paused
            assert stage.session.paused_channels == []
            assert stage.session.interceptor is None
            assert stage.session.traffic.meter is not None
        for each in (stage, other):  # what was looked at last is kept, of one session of a proxy
            each.session.refresh()
        assert kept() == before
        assert stage.session.is_parked


async def test_it_goes_on_where_it_was(autojump_clock: MockClock) -> None:
    async with staged(f"{OPEN}\n>> 1: confirm.select\n<< 1: confirm.select-ok") as stage:
        for _ in range(3):
            await become_idle(stage)
            await stage.play(f"""
                >> {PUBLISH}
                << 1: basic.ack
                >> 1: queue.declare
                << 1: queue.declare-ok
                >> 1: basic.publish, 1: header 5
            """)
            await become_idle(stage)
            await stage.play(">> 1: body 5")
        await become_idle(stage)
        await stage.play("""
            >> 1: body 5
            broker: connection.close 320
            client: connection.close 505
            << connection.close-ok
            client: nothing
            >> connection.close-ok
            client: EOF
            broker: EOF
        """)
        await stage.is_over.wait()


ENDS: dict[str, tuple[Callable[[Session], object], str]] = {
    "a drain": (lambda session: session.drain(), "connection.close 320"),
    "an operator": (lambda session: session.close("enough"), "connection.close 320"),
    "an abort": (lambda session: session.abort("enough"), "connection.close 320"),
    "a tap": (lambda session: session.apply_tap(Audience()), "nothing"),
    "a pause": (lambda session: session.pause(), "nothing"),
}


@pytest.mark.parametrize("name", ENDS)
async def test_what_is_done_to_it_wakes_it(name: str, autojump_clock: MockClock) -> None:
    act, seen = ENDS[name]
    async with staged(OPEN) as stage:
        await become_idle(stage)
        act(stage.session)
        assert not stage.session.is_parked
        assert await stage.client.sees() == seen


async def test_no_tap_and_no_rules_leave_it_parked(autojump_clock: MockClock) -> None:
    async with staged(OPEN) as stage:
        await become_idle(stage)
        stage.session.apply_tap(None)
        stage.session.count_unseen()
        stage.session.resume()
        assert stage.session.is_parked


async def test_one_that_is_cut_is_closed_without_its_parts(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        pytest.fail("parts were made")

    with capture_logs() as logs:
        async with staged(OPEN) as stage:
            await become_idle(stage)
            monkeypatch.setattr(ParkedSession, "view", fail)
            stage.session.cut("not drained within 3 s")
            assert stage.session.is_over
            assert not stage.session.is_parked
            assert await stage.client.sees() == "EOF"
            assert await stage.broker.sees() == "EOF"
            assert stage.metrics.channels._value.get() == 0
    (line,) = [each for each in logs if each["event"] == "connection closed"]
    assert (line["by"], line["code"], line["reason"]) == ("proxy", 320, "not drained within 3 s")


async def test_one_that_cannot_be_made_again_is_no_trouble_to_the_others(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    with capture_logs() as logs:
        async with staged(OPEN) as stage:
            await become_idle(stage)
            with monkeypatch.context() as patched:
                patched.setattr(ParkedSession, "parts", fail)
                stage.session.recall()
            assert stage.session.is_over
            assert await stage.client.sees() == "EOF"
            assert await stage.broker.sees() == "EOF"
            stage.metrics.channels.set(0)
    assert [each["event"] for each in logs if each["log_level"] == "error"] == ["session failed"]
