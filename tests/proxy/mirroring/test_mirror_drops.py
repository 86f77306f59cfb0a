import structlog
import trio
from trio.testing import MockClock

from amqproxy.proxy.mirroring.mirror_drops import LOG_INTERVAL, DropReason, MirrorDrops


async def test_the_first_is_logged_at_once_and_the_others_together(
    autojump_clock: MockClock, log: list[structlog.typing.EventDict]
) -> None:
    counted: list[tuple[DropReason, int]] = []
    drops = MirrorDrops(lambda reason, copies: counted.append((reason, copies)))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(drops.run)
        for _ in range(5):
            drops.add("other", DropReason.MEMORY, "full")
        drops.add(None, DropReason.MEMORY, "full")
        assert [(event["copies"], event.get("upstream")) for event in log] == [(1, "other"), (1, None)]
        await trio.sleep(LOG_INTERVAL + 1)
        assert [(event["copies"], event["reason"], event["detail"]) for event in log[2:]] == [(4, "memory", "full")]
        drops.add("other", DropReason.BACKLOG, "many", 7)
        drops.count(DropReason.CONNECTION, 2)
        assert log[3]["copies"] == 7
        await trio.sleep(2 * LOG_INTERVAL)
        assert len(log) == 4
        nursery.cancel_scope.cancel()
    assert counted == [(DropReason.MEMORY, 1)] * 6 + [(DropReason.BACKLOG, 7), (DropReason.CONNECTION, 2)]
