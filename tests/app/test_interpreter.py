"""How the interpreter is set up, by the proxy and by a broker alone."""

import gc
import sys

import pytest
import trio
import trio.testing
from msgspec.structs import replace
from structlog.testing import capture_logs

from amqproxy import app
from amqproxy.app import interpreter as module
from amqproxy.app.interpreter import (
    COLLECT_AFTER,
    EVERY,
    SWITCH_INTERVAL,
    YoungCollection,
    do_seldom,
    keep_pauses_short,
)
from amqproxy.compiled import _pure
from amqproxy.configuration.config import BrokerConfig, Config, ListenerConfig

ANYWHERE = ListenerConfig(address="127.0.0.1:0")


async def test_looking_for_garbage_takes_next_to_no_time(autojump_clock: trio.testing.MockClock) -> None:
    """A look that takes a second is the last one for hours."""
    looks: list[float] = []
    taken = iter([0.0, 0.001, 0.0, 1.0])
    times = [0.0]

    def collect() -> None:
        looks.append(trio.current_time())
        times[0] += next(taken, 0.0)

    with trio.move_on_after(20_000):
        await do_seldom(collect, lambda: times[0])
    gaps = [later - sooner for sooner, later in zip([0.0, *looks], looks, strict=False)]
    assert gaps[:5] == pytest.approx([60, 60, 60, 60, 10_000])


@pytest.fixture
def interpreter(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What is set of the interpreter, which stays as it is."""
    calls: list[tuple[object, ...]] = []
    for owner, name in ((gc, "freeze"), (gc, "set_threshold"), (sys, "setswitchinterval")):
        monkeypatch.setattr(owner, name, lambda *values, name=name: calls.append((name, *values)))
    return calls


@pytest.mark.parametrize("has_messages", [False, True])
async def test_what_is_free_is_given_back(
    monkeypatch: pytest.MonkeyPatch,
    interpreter: list[tuple[object, ...]],
    autojump_clock: trio.testing.MockClock,
    *,
    has_messages: bool,
) -> None:
    """A broker's memory, with many gaps, is not gone over: that takes long."""
    done: list[str] = []
    monkeypatch.setattr(gc, "collect", lambda *young: young or done.append("looked"))
    monkeypatch.setattr(module, "give_back", lambda: done.append("given back"))
    async with trio.open_nursery() as nursery:
        keep_pauses_short(nursery, has_messages=has_messages)
        done.clear()
        await trio.sleep(1.5 * EVERY)
        nursery.cancel_scope.cancel()
    assert sorted(done) == (["looked"] if has_messages else ["given back", "looked"])


@pytest.mark.parametrize("is_slow", [False, True])
async def test_the_plain_form_is_a_warning_where_nobody_has_asked_for_it(
    monkeypatch: pytest.MonkeyPatch, interpreter: list[tuple[object, ...]], *, is_slow: bool
) -> None:
    monkeypatch.setattr(_pure, "is_slow", lambda: is_slow)
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            keep_pauses_short(nursery, has_messages=True)
            nursery.cancel_scope.cancel()
    assert [each["event"] for each in log] == (["running plain sources"] if is_slow else [])


def test_new_objects_do_not_accumulate_while_older_ones_are_freed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interpreter does not count them then: it compares its threshold with new objects less freed ones."""
    now = [1.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    older: list[list[int]] = [[] for _ in range(200_000)]
    collection = YoungCollection()
    gc.collect()
    most = 0
    for place in range(len(older)):
        older[place] = [place]  # one is new, and one freed
        if place % 1_000 == 0:
            now[0] += module.YOUNG_EVERY
            most = max(most, len(gc.get_objects(generation=0)))
            collection.before_io_wait(0.0)
    assert most < 20_000


def seldom() -> int:
    """How many tasks do something seldom: they look for garbage, and a proxy's give memory back."""
    task = trio.lowlevel.current_root_task()
    assert task is not None
    count, tasks = 0, [task]
    while tasks:
        task = tasks.pop()
        count += task.name.endswith("do_seldom")
        tasks += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return count


SET_UP = [("freeze",), ("set_threshold", *COLLECT_AFTER), ("setswitchinterval", SWITCH_INTERVAL)]


@pytest.mark.parametrize("upstream", ["broker", "another"])
async def test_the_proxy_has_the_interpreter_set_up_as_a_broker_does(
    upstream: str, interpreter: list[tuple[object, ...]]
) -> None:
    config = Config(listen=(ANYWHERE,))
    config = replace(config, upstream="broker") if upstream == "broker" else config
    with capture_logs() as log:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(app.run, config)
            with trio.fail_after(20):
                while not any(each["event"] == "listening" and "upstream" in each for each in log):  # noqa: ASYNC110
                    await trio.sleep(0.01)
                await trio.sleep(0.05)
            assert interpreter == SET_UP
            assert seldom() == (1 if upstream == "broker" else 2)
            nursery.cancel_scope.cancel()


async def test_a_broker_alone(interpreter: list[tuple[object, ...]]) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(app.run_broker, Config(broker=BrokerConfig(listen=(ANYWHERE,))))
        with trio.fail_after(20):
            while not interpreter:  # noqa: ASYNC110
                await trio.sleep(0.01)
            await trio.sleep(0.05)
        assert interpreter == SET_UP
        assert seldom() == 1
        nursery.cancel_scope.cancel()
