"""Signals: the first one drains, the second one ends; a hang-up reads again."""

from collections.abc import AsyncIterator

import trio
from structlog.testing import capture_logs

from amqproxy.app.signals import handle_ending, handle_hangup


async def given(*signals: int) -> AsyncIterator[int]:
    for each in signals:
        yield each


async def test_the_first_drains_and_the_second_ends() -> None:
    drain = trio.Event()
    scope = trio.CancelScope()
    await handle_ending(given(15), drain, scope)
    assert drain.is_set()
    assert not scope.cancel_called
    await handle_ending(given(2), drain, scope)
    assert scope.cancel_called


async def test_a_hang_up_reads_again_whatever_fails() -> None:
    read: list[int] = []

    async def reload() -> None:
        read.append(1)
        await trio.lowlevel.checkpoint()
        raise OSError("gone")

    with capture_logs() as log:
        await handle_hangup(given(1, 1), reload)
    assert len(read) == 2
    assert {each["event"] for each in log} == {"reloading", "reload failed"}
