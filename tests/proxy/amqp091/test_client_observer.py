"""What is noted of a session's client."""

from __future__ import annotations

from structlog.testing import capture_logs

from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.proxy.stage import OPEN, staged

DECLARE = """
    >> 1: queue.declare
    << 1: queue.declare-ok
"""


async def test_nothing_is_kept_of_a_client_that_asks_for_nothing() -> None:
    async with staged(OPEN, topology=ObservedTopology()) as stage:
        assert stage.session.channel_views == {}
        await stage.play(">> 1: basic.consume\n<< 1: basic.consume-ok")
        assert list(stage.session.channel_views[1].consumers) == ["tag"]


async def test_nothing_is_kept_where_nobody_can_ask() -> None:
    async with staged(OPEN) as stage:
        await stage.play(DECLARE)
        assert stage.session.channel_views == {}


async def test_all_sessions_share_a_topology_and_an_end_is_noted() -> None:
    topology = ObservedTopology()
    for count in (1, 2):
        async with staged(OPEN, topology=topology) as stage:
            await stage.play(DECLARE)
            await stage.play(">> 1: basic.consume\n<< 1: basic.consume-ok")
            [queue] = topology.entries()
            assert queue.declared_by is not None
            assert (queue.declared_by.session, queue.declared_by.user, queue.declared_by.client) == (1, "guest", "c:1")
            assert (queue.consumers, count) == (1, count)  # type: ignore[union-attr]
        [queue] = topology.entries()
        assert queue.consumers == 0  # type: ignore[union-attr]


async def test_a_failure_is_logged_and_no_trouble_to_the_session() -> None:
    topology = ObservedTopology()
    topology.carry_out = None  # type: ignore[assignment]
    async with staged(OPEN, topology=topology) as stage:
        with capture_logs() as logs:
            await stage.play(DECLARE)
        assert [line["event"] for line in logs if line["log_level"] == "error"] == ["request not observed"]
        await stage.play(DECLARE)
