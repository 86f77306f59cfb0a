"""Who sends, and when."""

import trio
import trio.testing
from structlog.testing import capture_logs

from amqproxy.broker.server.send_scheduler import SendScheduler


class Scribe:
    """Sends for so many turns, one after the other."""

    def __init__(self, send_scheduler: SendScheduler, turns: int = 1) -> None:
        self.send_scheduler = send_scheduler
        self.turns = turns
        self.sent: list[float] = []

    def send(self, now: float) -> None:
        self.sent.append(now)
        self.turns -= 1
        if self.turns:
            self.send_scheduler.add(self)


async def test_what_the_task_that_caused_it_flushes_wakes_no_other() -> None:
    send_scheduler = SendScheduler()
    scribe = Scribe(send_scheduler)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_scheduler.run)
        await trio.testing.wait_all_tasks_blocked()
        send_scheduler.hold()
        send_scheduler.add(scribe)
        await trio.testing.wait_all_tasks_blocked()
        assert scribe.sent == []
        send_scheduler.flush(5.0)
        assert scribe.sent == [5.0]
        await trio.testing.wait_all_tasks_blocked()
        assert scribe.sent == [5.0]
        nursery.cancel_scope.cancel()


async def test_what_is_not_flushed_is_sent_all_the_same() -> None:
    send_scheduler = SendScheduler()
    scribe = Scribe(send_scheduler)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_scheduler.run)
        for count in (1, 2):
            await trio.testing.wait_all_tasks_blocked()
            scribe.turns = 1
            send_scheduler.add(scribe)
            await trio.testing.wait_all_tasks_blocked()
            assert len(scribe.sent) == count
        nursery.cancel_scope.cancel()


async def test_who_has_more_waits_for_the_next_turn() -> None:
    send_scheduler = SendScheduler()
    long, short = Scribe(send_scheduler, turns=3), Scribe(send_scheduler)
    send_scheduler.hold()
    send_scheduler.add(long)
    send_scheduler.add(short)
    send_scheduler.flush(1.0)
    assert (len(long.sent), len(short.sent)) == (1, 1)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(send_scheduler.run)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(long.sent), len(short.sent)) == (3, 1)
        nursery.cancel_scope.cancel()


async def test_one_that_fails_keeps_no_other_from_sending() -> None:
    class Failing(Scribe):
        def send(self, now: float) -> None:
            raise RuntimeError("on purpose")

    send_scheduler = SendScheduler()
    scribe = Scribe(send_scheduler)
    send_scheduler.hold()
    send_scheduler.add(Failing(send_scheduler))
    send_scheduler.add(scribe)
    with capture_logs() as log:
        send_scheduler.flush(5.0)
    assert scribe.sent == [5.0]
    assert [each["event"] for each in log if each["log_level"] == "error"] == ["sending failed"]
