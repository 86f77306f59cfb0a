"""Moves of all queues of a job, in passes, until a whole pass has found every queue empty."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from itertools import groupby

import trio

from amqproxy.moving.broker_link import BrokerLink, ChannelRefused, open_link
from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.moving.move_job import JobReport, MovedQueue, MoveEnd, MoveJob, QueueReport, Report
from amqproxy.moving.move_login import dial_of, login_of
from amqproxy.moving.queue_move import QueueLeft, move_queue
from amqproxy.proxy.broker_login import LOST
from amqproxy.proxy.upstream import Unreachable

PAUSE = 1.0
"""Seconds before queues that could not be moved are tried again."""

Place = tuple[int, MovedQueue]
"""A queue with its place in the job."""


class MoveProgram:
    """The move of a job's queues; `report` is told what happens."""

    def __init__(self, job: MoveJob, report: Callable[[Report], None]) -> None:
        self.job = job
        self._report = report
        self._dials = {id(end): dial_of(end) for end in (job.source, job.target)}
        self._moved = [0] * len(job.queues)
        self._left = [0] * len(job.queues)
        """Messages that waited in each queue when it was looked at last."""
        self._left_out: set[int] = set()

    async def run(self) -> None:
        """Move until all queues are empty; those that are left for good do not count."""
        while not await self._pass():
            pass
        self._report(JobReport(is_done=True))

    async def _pass(self) -> bool:
        """Look at each queue once, and move its messages; return whether all were empty.

        Dead-lettering may fill a queue behind the look at it.
        """
        before = sum(self._moved)
        has_failed = False
        places = [each for each in enumerate(self.job.queues) if each[0] not in self._left_out]
        for vhost, group in groupby(sorted(places, key=lambda each: each[1].vhost), lambda each: each[1].vhost):
            waiting = list(group)
            while waiting and not has_failed:
                has_failed = not await self._move_some(vhost, waiting)
        if has_failed:
            await trio.sleep(PAUSE)
        return not has_failed and sum(self._moved) == before

    async def _move_some(self, vhost: str, waiting: list[Place]) -> bool:
        """Move queues of a virtual host over one pair of connections; return whether none has failed."""
        place = -1
        try:
            async with AsyncExitStack() as stack:
                source, target = [
                    await stack.enter_async_context(self._open(end, vhost))
                    for end in (self.job.source, self.job.target)
                ]
                for place, queue in _taken(waiting):
                    if await self._move(source, target, place, queue):
                        break
        except QueueLeft as error:
            self._left_out.add(place)
            self._report(QueueReport(place, "left", self._moved[place], self._left[place], str(error)))
        except MoveFailed as error:
            self._report(QueueReport(place, "waits", self._moved[place], self._left[place], str(error)))
            return False
        except (Unreachable, ChannelRefused, *LOST) as error:
            self._report(JobReport(text=str(error) or "a broker does not answer"))
            return False
        return True

    def _open(self, end: MoveEnd, vhost: str) -> AbstractAsyncContextManager[BrokerLink]:
        return open_link(self._dials[id(end)], login_of(end), vhost)

    async def _move(self, source: BrokerLink, target: BrokerLink, place: int, queue: MovedQueue) -> int:
        """Move one queue; return the number of its messages that were moved now."""
        before = self._moved[place]

        def note(moved: int, left: int) -> None:
            self._moved[place], self._left[place] = before + moved, left
            self._report(QueueReport(place, "moving", before + moved, left))

        moved = await move_queue(source, target, queue, strict=self.job.strict, report=note)
        self._moved[place] = before + moved
        self._report(QueueReport(place, "empty", before + moved))
        return moved


def _taken(waiting: list[Place]) -> Iterator[Place]:
    """Take and yield the queues one by one."""
    while waiting:
        yield waiting.pop(0)
