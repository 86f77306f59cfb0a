"""Turns of clients: the waits of tasks in an `AdmissionQueue`."""

from __future__ import annotations

from collections.abc import Callable

import trio

from amqproxy.proxy.admission_queue import AdmissionQueue, Departed, Outcome, QueueFull, Waiting

TURN = 20
"""Maximum number of clients that are admitted in one turn of the loop."""


async def await_turn(
    queue: AdmissionQueue,
    address: str,
    times: Callable[[], int] = lambda: 1,
    is_gone: Callable[[], bool] = lambda: False,
) -> None:
    """Wait for the turn of a client of this address.

    Raise `QueueFull` if it is refused, `Departed` if it `is_gone` when its turn comes. The rate is multiplied by what
    `times` returns then, such as the number of brokers; by 1 if that is 0.

    One of the waiting tasks keeps the time for all, so that there is no task to start, restart or stop.
    """
    began = trio.current_time()
    woken = trio.Event()

    def wake() -> None:
        woken.set()

    client = Waiting(address, wake, is_gone)
    queue.enter(client)
    try:
        while client.outcome is None:
            if queue.timekeeper is None:
                await _keep_time(queue, client, times)
            else:
                woken = trio.Event()
                await woken.wait()
    finally:
        queue.leave(client)
        following = queue.any()
        if queue.timekeeper is None and following is not None:
            following.wake()
    if client.outcome is Outcome.REFUSED:
        raise QueueFull
    if client.outcome is Outcome.DEPARTED:
        raise Departed
    queue.seconds += trio.current_time() - began


async def _keep_time(queue: AdmissionQueue, client: Waiting, times: Callable[[], int]) -> None:
    """Admit clients as they become due, until this one is out of the queue itself."""
    queue.timekeeper = client
    try:
        while client.outcome is None:
            await trio.sleep_until(queue.due_at(max(1, times())))
            for _ in range(TURN):
                if queue.take(trio.current_time(), max(1, times())) is None:
                    break
    finally:
        queue.timekeeper = None
