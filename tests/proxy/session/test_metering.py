"""Messages of a session are counted as its client sends and is sent them, with and without rules."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from trio.testing import MockClock

from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.stage import OPEN, Stage, staged

CONFIRMING = f"""
    {OPEN}
    >> 1: confirm.select
    << 1: confirm.select-ok
"""
CONSUMING = f"""
    {OPEN}
    >> 1: basic.consume
    << 1: basic.consume-ok
"""
PUBLISH = "1: basic.publish, 1: header 1, 1: body 1"


def rules(**config: Any) -> RuleSet:
    return RuleSet([msgspec.convert({"name": "rule"} | config, AnyRule)])


def counted(stage: Stage) -> dict[str, float]:
    """The message metrics that are not 0, without the common part of their names."""
    return {
        sample.name.removeprefix("amqproxy_messages_").removeprefix("amqproxy_").removesuffix("_total"): sample.value
        for family in stage.metrics.registry.collect()
        if family.name.startswith(("amqproxy_messages_", "amqproxy_consumers"))
        for sample in family.samples
        if sample.value
    }


async def test_what_passes_is_counted(autojump_clock: MockClock) -> None:
    async with staged() as stage:
        await stage.play(f"""
            {CONFIRMING}
            >> {PUBLISH}, {PUBLISH}
            << 1: basic.ack
        """)
        assert counted(stage) == {"published": 2, "confirmed": 1, "unconfirmed": 1}
        await stage.play(">> EOF\n<< EOF")
    assert counted(stage) == {"published": 2, "confirmed": 1}


async def test_what_rules_refuse_is_counted_as_the_client_sees_it(autojump_clock: MockClock) -> None:
    refusing = rules(action="refuse", match={"method": "basic.publish"}, **{"with": "nack"})
    async with staged(rules=refusing) as stage:
        await stage.play(f"""
            {CONFIRMING}
            >> {PUBLISH}
            broker: nothing
            client: 1: basic.nack
        """)
        assert counted(stage) == {"published": 1, "nacked": 1}
        await stage.play(">> EOF\n<< EOF")


async def test_a_meter_that_fails_is_no_trouble_to_the_session(
    autojump_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with staged() as stage:
        await stage.play(CONSUMING)
        assert counted(stage) == {"consumers": 1}
        metered = stage.session.traffic.metered
        assert metered is not None
        meter = metered.meter
        assert meter is not None

        class Broken:
            def feed(self, *arguments: object) -> None:
                raise ZeroDivisionError

            close = meter.close

        metered.meter = Broken()  # type: ignore[assignment]
        with capture_logs() as logs:
            await stage.play(f"""
                >> {PUBLISH}
                >> {PUBLISH}
                << 1: basic.deliver, 1: header 1, 1: body 1
            """)
        assert [each["event"] for each in logs if each["log_level"] != "debug"] == ["messages not counted"]
        assert counted(stage) == {}
        await stage.play(">> EOF\n<< EOF")
