"""Limits and faults in a session: transcripts of what both peers see when they are carried out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import structlog
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy.amqp091.errors import UnexpectedFrame
from amqproxy.amqp091.frame import HEADER, METHOD, encode_frame
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.proxy.amqp091.interception.channel_interceptor import ChannelInterceptor
from amqproxy.rules.actions import AnyRule
from amqproxy.rules.engine.evaluator import RuleSet
from tests.proxy.stage import HANDSHAKE, OPEN, Stage, staged
from tests.transcripts.words import method, octets


def rules(*configs: dict[str, Any]) -> RuleSet:
    return RuleSet([msgspec.convert({"name": f"rule {n}"} | config, AnyRule) for n, config in enumerate(configs)])


def limit(**keys: Any) -> RuleSet:
    return rules({"action": "limit"} | keys)


def fault(
    kind: str, *, match: dict[str, Any] | None = None, rule: dict[str, Any] | None = None, **keys: Any
) -> RuleSet:
    return rules({"action": "fault", "match": match or {}, "fault": {"kind": kind} | keys} | (rule or {}))


PUBLISH = "1: basic.publish, 1: header 1, 1: body 1"
DELIVER = "1: basic.deliver, 1: header 1, 1: body 1"
CONSUMING = f"""
    {OPEN}
    >> 1: basic.consume
    << 1: basic.consume-ok
"""
CONFIRMING = f"""
    {OPEN}
    >> 1: confirm.select
    << 1: confirm.select-ok
"""

SCRIPTS: list[tuple[str, RuleSet, str]] = [
    (
        "one channel too many is closed, and its number can be used when one is closed",
        limit(of="channels", most=2),
        f"""
        {OPEN}
        >> 3: channel.open
        client: 3: channel.close 506
        broker: nothing
        >> 3: channel.close-ok
        broker: nothing
        >> 2: channel.close 200
        << 2: channel.close-ok
        >> 3: channel.open
        << 3: channel.open-ok
        """,
    ),
    (
        "one consumer too many",
        limit(of="consumers", most=1, per="vhost"),
        f"""
        {CONSUMING}
        >> 2: basic.consume
        client: 2: channel.close 506
        broker: 2: channel.close 200
        << 2: channel.close-ok
        client: nothing
        >> 2: channel.close-ok
        broker: nothing
        >> 1: channel.close 200
        << 1: channel.close-ok
        >> 2: channel.open
        << 2: channel.open-ok
        >> 2: basic.consume
        << 2: basic.consume-ok
        """,
    ),
    (
        "a connection too many",
        limit(of="connections", most=0),
        """
        >> header
        << connection.start
        >> connection.start-ok
        << connection.tune
        >> connection.tune-ok
        >> connection.open
        client: connection.close 530
        """,
    ),
    (
        "a publish that is too fast is nacked, and the next confirm is for the next one",
        limit(of="messages", rate=0.001, burst=1, act="refuse"),
        f"""
        {CONFIRMING}
        >> {PUBLISH}
        >> {PUBLISH}
        client: 1: basic.nack
        broker: nothing
        << 1: basic.ack
        """,
    ),
    (
        "a message that is too large closes its channel at its header",
        limit(of="message_size", most=10),
        f"""
        {OPEN}
        >> 1: basic.publish, 1: header 11
        client: 1: channel.close 406
        broker: 1: channel.close 200
        >> 1: body 11
        broker: nothing
        << 1: channel.close-ok
        client: nothing
        """,
    ),
    (
        "a consumer without prefetch gets one, and the client receives nothing of it",
        limit(of="prefetch", most=10),
        f"""
        {OPEN}
        >> 1: basic.consume
        broker: 1: basic.qos, 1: basic.consume
        << 1: basic.qos-ok, 1: basic.consume-ok
        client: 1: basic.consume-ok
        """,
    ),
    (
        "nacked, and the next one is the broker's to confirm",
        fault("nack", match={"method": "basic.publish"}, rule={"count": 1}),
        f"""
        {CONFIRMING}
        >> {PUBLISH}
        client: 1: basic.nack
        broker: nothing
        >> {PUBLISH}
        << 1: basic.ack
        """,
    ),
    (
        "returned",
        fault("return", rule={"count": 1}),
        f"""
        {CONFIRMING}
        >> {PUBLISH}
        client: 1: basic.return, 1: header 1, 1: body 1, 1: basic.ack
        broker: nothing
        """,
    ),
    (
        "an ack is lost",
        fault("drop", match={"method": "basic.ack", "sender": "client"}, rule={"count": 1}),
        f"""
        {CONSUMING}
        << {DELIVER}
        >> 1: basic.ack
        broker: nothing
        """,
    ),
    (
        "a heartbeat is lost, and the next is not",
        fault("drop", match={"method": "heartbeat"}, rule={"count": 1}),
        f"""
        {HANDSHAKE}
        >> heartbeat
        broker: nothing
        >> heartbeat
        broker: heartbeat
        """,
    ),
    (
        "a delivery comes twice",
        fault("duplicate", match={"method": "basic.deliver"}, rule={"count": 1}),
        f"""
        {CONSUMING}
        << {DELIVER}
        client: {DELIVER}, {DELIVER}
        """,
    ),
    (
        "a channel is closed at the second publish",
        fault("close", code=504, match={"method": "basic.publish"}, rule={"nth": 2}),
        f"""
        {OPEN}
        >> {PUBLISH}
        >> {PUBLISH}
        client: 1: channel.close 504
        broker: 1: channel.close 200
        """,
    ),
    (
        "the client's connection is closed for a delivery",
        fault("close", code=320, scope="connection", match={"method": "basic.deliver"}),
        f"""
        {CONSUMING}
        << {DELIVER}
        client: connection.close 320
        broker: connection.close 320
        """,
    ),
    (
        "a declare is answered with 406",
        fault("close", code=406, match={"method": "queue.declare"}),
        f"""
        {OPEN}
        >> 1: queue.declare
        client: 1: channel.close 406
        broker: 1: channel.close 200
        """,
    ),
    (
        "a consumer is cancelled, and what comes for it goes back",
        fault("cancel", rule={"count": 1}),
        f"""
        {CONSUMING}
        << {DELIVER}
        client: {DELIVER}
        broker: 1: basic.cancel
        """,
    ),
]


@pytest.mark.parametrize(("ruleset", "script"), [each[1:] for each in SCRIPTS], ids=[each[0] for each in SCRIPTS])
async def test_what_both_peers_see(ruleset: RuleSet, script: str) -> None:
    async with staged(script, rules=ruleset):
        pass


async def receives(stage: Stage, line: str, seconds: float) -> None:
    """The line holds after so many seconds, and not before."""
    peer, _, words = line.partition(": ")
    actor = stage.client if peer == "client" else stage.broker
    await trio.sleep(seconds - 0.1)
    assert await actor.sees() == "nothing"
    await trio.sleep(0.2)
    assert await actor.sees() == words


async def test_too_fast_waits(autojump_clock: MockClock) -> None:
    async with staged(OPEN, rules=limit(of="messages", rate=0.5, burst=1)) as stage:
        await stage.play(f"""
            >> {PUBLISH}
            >> {PUBLISH}
            broker: nothing
        """)
        await receives(stage, f"broker: {PUBLISH}", 2)


async def test_one_task_keeps_the_time_whichever_peer_sends_when_something_begins_to_wait(
    autojump_clock: MockClock,
) -> None:
    async with staged(CONSUMING, rules=limit(of="messages", rate=0.5, burst=1)) as stage:
        nursery = stage.session._nursery
        assert nursery is not None
        await stage.play(f">> {PUBLISH}")
        before = nursery.count
        stage.client.say(octets(PUBLISH))
        stage.broker.say(octets("1: basic.cancel"))
        await wait_all_tasks_blocked()
        assert nursery.count == before + 1


async def test_a_late_ack(autojump_clock: MockClock) -> None:
    async with staged(CONSUMING, rules=fault("delay", seconds=3, match={"method": "basic.ack"})) as stage:
        await stage.play(f"""
            << {DELIVER}
            >> 1: basic.ack
            broker: nothing
        """)
        await receives(stage, "broker: 1: basic.ack", 3)


async def test_deliveries_out_of_order() -> None:
    async with staged(CONSUMING, rules=fault("reorder", rule={"count": 1})) as stage:
        await stage.play(f"""
            << {DELIVER}
            client: nothing
            << 1: basic.deliver, 1: header 2, 1: body 2
            client: 1: basic.deliver, 1: header 2, 1: body 2, {DELIVER}
        """)


async def test_latency_from_the_beginning(autojump_clock: MockClock) -> None:
    async with staged("", rules=fault("latency", delay=2, to="client")) as stage:
        await stage.play("""
            >> header
            << connection.start
            client: nothing
        """)
        await receives(stage, "client: connection.start", 2)


async def test_silence_from_a_publish_on(autojump_clock: MockClock) -> None:
    ruleset = fault("timeout", close_after=5, to="server", match={"method": "basic.publish"})
    async with staged(OPEN, rules=ruleset) as stage:
        await stage.play(f"""
            >> {PUBLISH}
            broker: nothing
        """)
        await trio.sleep(6)
        assert await stage.broker.sees() == "EOF"
        await stage.is_over.wait()


async def test_a_client_of_one_user_is_reset() -> None:
    ruleset = fault("reset", to="client", match={"user": "guest"})
    async with staged("", rules=ruleset, tcp=True) as stage:
        await stage.play(HANDSHAKE.replace("<< connection.open-ok", ""))
        stage.broker.perform("connection.open-ok")
        assert await stage.client.sees() == "RST"
        stage.broker.perform("EOF")
        with trio.fail_after(5):
            await stage.is_over.wait()


@pytest.mark.parametrize("to", ["client", "server"])
async def test_a_reset_by_a_rule_is_told_as_what_it_is(to: str, log: list[structlog.typing.EventDict]) -> None:
    async with staged(OPEN, rules=fault("reset", to=to, match={"method": "basic.publish"}), tcp=True) as stage:
        stage.client.perform(PUBLISH)
        await wait_all_tasks_blocked()
        (stage.broker if to == "client" else stage.client).perform("EOF")
        with trio.fail_after(5):
            await stage.is_over.wait()
    name = {"client": "client", "server": "upstream"}[to]
    ends = [(line["by"], line["reason"]) for line in log if line["event"] == "connection closed"]
    assert ends == [("proxy", f"{name} was reset by a fault rule")]


async def test_a_bit_is_flipped() -> None:
    ruleset = fault("corrupt", place=18, mask=1, match={"method": "basic.ack"}, rule={"count": 1})
    async with staged(CONSUMING, rules=ruleset) as stage:
        await stage.play(f"<< {DELIVER}")
        stage.client.perform("1: basic.ack")
        await trio.testing.wait_all_tasks_blocked()
        seen = stage.broker.look()
        expected = bytearray(stage.client.said[-len(seen) :])
        expected[18] ^= 1
        assert seen == bytes(expected)


async def test_a_slow_close(autojump_clock: MockClock) -> None:
    async with staged(OPEN, rules=fault("slow_close", delay=20, to="client")) as stage:
        await stage.play("""
            >> connection.close 200
            << connection.close-ok
            << EOF
            client: nothing
        """)
        await receives(stage, "client: EOF", 20)
        await stage.is_over.wait()


async def test_a_reload_begins_and_ends_stream_faults(autojump_clock: MockClock) -> None:
    slow = fault("latency", delay=2, to="client")
    async with staged(HANDSHAKE, rules=limit(of="channels", most=9)) as stage:
        stage.session.apply_rules(slow)
        await stage.play("""
            << heartbeat
            client: nothing
        """)
        await receives(stage, "client: heartbeat", 2)
        stage.session.apply_rules(slow.replaced(slow.rules))
        await stage.play("""
            << heartbeat
            client: nothing
        """)
        await receives(stage, "client: heartbeat", 2)
        stage.session.apply_rules(RuleSet(()))
        await stage.play("<< heartbeat")


async def test_one_delivery_too_many() -> None:
    """What is acknowledged counts no longer, and what a rule does not limit is not counted."""

    def delivered(tag: int) -> bytes:
        return method("basic.deliver", 1, consumer_tag="tag", delivery_tag=tag) + octets("1: header 1, 1: body 1")

    async with staged(CONSUMING, rules=limit(of="unacked", most=2, act="refuse")) as stage:
        for tag in (1, 2):
            stage.broker.say(delivered(tag))
        assert await stage.client.sees() == f"{DELIVER}, {DELIVER}"
        stage.client.say(method("basic.ack", 1, delivery_tag=2, multiple=True))
        assert await stage.broker.sees() == "1: basic.ack"
        for tag in (3, 4):
            stage.broker.say(delivered(tag))
        assert await stage.client.sees() == f"{DELIVER}, {DELIVER}"
        stage.broker.say(delivered(5))
        assert await stage.client.sees() == "1: channel.close 406"
        assert await stage.broker.sees() == "1: channel.close 200"


# ------------------------------------------------------------------------------ what is malformed, and would wait

ONE_AND_WAIT = {"of": "messages", "rate": 0.1, "burst": 1}
TRUNCATED = encode_frame(METHOD, 1, bytes.fromhex("003c 0028 0000 02") + b"ab" + b"\x09k")
"""A basic.publish whose routing key is shorter than its length."""
BAD_HEADER = octets("1: basic.publish") + encode_frame(
    HEADER, 1, bytes.fromhex("003c 0000") + bytes(8) + b"\x80\0\x09t"
)


@pytest.mark.parametrize("malformed", [TRUNCATED, BAD_HEADER], ids=["method", "header"])
@pytest.mark.parametrize("waiting", [0, 2], ids=["would wait itself", "behind others"])
async def test_what_is_malformed_is_refused_when_it_comes_and_not_when_it_would_go_on(
    malformed: bytes, waiting: int
) -> None:
    async with staged(OPEN, rules=limit(**ONE_AND_WAIT)) as stage:
        await stage.play(f">> {PUBLISH}")
        for _ in range(waiting):
            stage.client.perform(PUBLISH)
        await stage.play("broker: nothing")
        stage.client.say(malformed)
        await stage.play("client: connection.close 501")
        assert (await stage.broker.sees()).endswith("connection.close 320")
        assert stage.count("protocol_errors_total", sender="client", code="501") == 1


async def test_what_is_malformed_on_a_number_that_waits_to_be_opened_again() -> None:
    async with staged(OPEN, rules=fault("close", code=406, match={"method": "queue.declare"})) as stage:
        await stage.play("""
            >> 1: queue.declare
            client: 1: channel.close 406
            broker: 1: channel.close 200
        """)
        stage.client.perform("1: channel.close-ok, 1: channel.open")
        await stage.play("client: nothing")
        stage.client.say(TRUNCATED)
        await stage.play("""
            client: connection.close 501
            broker: connection.close 320
        """)


HOWS = {
    "a drain": lambda stage: stage.session.drain(),
    "its time": lambda stage: None,
    "the end of the client": lambda stage: stage.client.perform("EOF"),
}


@pytest.mark.parametrize("how", HOWS.values(), ids=HOWS.keys())
async def test_what_cannot_be_sent_on_ends_only_the_session_of_its_sender(
    how: Callable[[Stage], None],
    monkeypatch: pytest.MonkeyPatch,
    log: list[structlog.typing.EventDict],
    autojump_clock: MockClock,
) -> None:
    """Whatever lets it go on: an error that is found only then is sent to its sender, with its code."""

    def fails(*_: Any) -> None:
        raise UnexpectedFrame("found late")

    async with staged(OPEN, rules=limit(**ONE_AND_WAIT)) as stage:
        await stage.play(f">> {PUBLISH}")
        stage.client.perform(PUBLISH)
        await stage.play("broker: nothing")
        with monkeypatch.context() as patch:
            patch.setattr(ChannelInterceptor, "_settle", fails)
            how(stage)
            with trio.move_on_after(11):
                await stage.is_over.wait()
        assert stage.count("protocol_errors_total", sender="client", code="505") == 1
        assert "session failed" not in [each["event"] for each in log]


# ------------------------------------------------------------------------- what is held when its sender is gone

GONE: dict[str, Callable[[Stage], object]] = {
    "hangs up": lambda stage: stage.client.perform("EOF"),
    "resets": lambda stage: stage.client.perform("RST"),
    "closes, and disconnects": lambda stage: stage.client.perform("connection.close 200, EOF"),
    "is silent for too long": lambda stage: stage.session.disconnect(CLIENT, "missed its heartbeats"),
    "breaks the protocol": lambda stage: stage.client.perform("1: body 1"),
    "is asked to go": lambda stage: stage.session.drain(),
    "has to go at once": lambda stage: stage.session.abort("not drained within 1 s"),
}


@pytest.mark.parametrize("on_timeout", ["pass", "refuse"])
@pytest.mark.parametrize("go", GONE.values(), ids=GONE.keys())
async def test_what_is_held_when_its_sender_goes_follows_on_timeout(
    go: Callable[[Stage], object], on_timeout: str
) -> None:
    hold = rules({"action": "hold", "match": {"method": "basic.publish"}, "timeout": 60, "on_timeout": on_timeout})
    async with staged(OPEN, rules=hold, tcp=True) as stage:
        stage.client.perform(PUBLISH)
        await stage.play("broker: nothing")
        stage.client.perform("2: basic.publish, 2: header 1, 2: body 1")
        await stage.play("broker: nothing")
        go(stage)
        seen = await stage.broker.sees()
        both = f"{PUBLISH}, {PUBLISH.replace('1:', '2:')}"
        assert seen.startswith(both) is (on_timeout == "pass"), seen
        assert ("basic.publish" in seen) is (on_timeout == "pass")
