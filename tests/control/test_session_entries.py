"""Sessions as the control socket lists them."""

import re
from pathlib import Path

import msgspec
from trio.testing import wait_all_tasks_blocked

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicConsumeOk,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    ConfirmSelect,
    ConfirmSelectOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.control.client_name import MOST_TEXT, shown_text
from amqproxy.control.session_entries import (
    channel_entries,
    connection_entry,
    consumer_entries,
)
from tests.control.fake_sessions import FakeSessions, opened

PAGE = Path(__file__).parent.parent.parent / "docs" / "control.md"
BLOCK = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


async def test_a_connection() -> None:
    async with opened() as proxy:
        proxy.session.connected_at = 1000.5
        sent = len(proxy.stage.client.said), len(proxy.stage.broker.said)
        assert connection_entry(proxy.session) == {
            "session": 1,
            "connection": "c:1-p:2",
            "connected_at": 1000.5,
            "protocol": "0-9-1",
            "state": "open",
            "user": "guest",
            "vhost": "/",
            "mechanism": "PLAIN",
            "relayed_by": "event loop",
            "tls": False,
            "tls_subject": "",
            "product": "",
            "product_version": "",
            "platform": "",
            "name": "",
            "upstream": "",
            "channel_max": 2047,
            "frame_max": 131072,
            "heartbeat": 60,
            "blocked": False,
            "channels": 2,
            "paused_channels": [],
            "consumers": 0,
            "bytes": {"client": sent[0], "server": sent[1]},
        }
        await proxy.stage.play("<< connection.blocked")
        assert connection_entry(proxy.session)["blocked"] is True


def on_page(key: str) -> set[str]:
    """The keys of the example that has this one."""
    [shown] = [each for each in BLOCK.findall(PAGE.read_text()) if f'"{key}"' in each]
    return set(msgspec.json.decode(shown))


async def test_the_page_shows_every_key() -> None:
    async with opened() as proxy:
        await send(proxy, BasicConsume(queue="q", consumer_tag="t"), BasicConsumeOk("t"))
        assert on_page("tls_subject") == set(connection_entry(proxy.session))
        channel, _ = channel_entries([proxy.session])
        assert on_page("open_content") == set(channel)
        [consumer] = consumer_entries([proxy.session])
        assert on_page("consumer_tag") == set(consumer)
        [queue] = msgspec.to_builtins(list(proxy.topology.entries()))
        assert on_page("seen_at") == set(queue)


async def test_redactions_hold_here_too() -> None:
    async with opened('name = "redact"\naction = "redact"\nfields = ["virtual_host"]') as proxy:
        assert connection_entry(proxy.session)["vhost"] == "***"


async def test_a_consumer_tag_is_redacted() -> None:
    async with opened('name = "redact"\naction = "redact"\nfields = ["consumer_tag"]') as proxy:
        await send(proxy, BasicConsume(queue="q", consumer_tag="secret"), BasicConsumeOk("secret"))
        [consumer] = consumer_entries([proxy.session])
        assert (consumer["queue"], consumer["consumer_tag"]) == ("q", "***")


def test_texts_are_bounded_and_can_be_encoded() -> None:
    assert shown_text("x" * 5000) == "x" * MOST_TEXT
    assert shown_text("a\udcff") == "a\\udcff"


async def send(proxy: FakeSessions, request: Method, reply: Method | None = None, channel: int = 1) -> None:
    """The client sends a request, and the broker replies, whatever it got."""
    proxy.stage.client.say(encode_method(channel, request))
    await wait_all_tasks_blocked()
    if reply is not None:
        proxy.stage.broker.say(encode_method(channel, reply))
        await wait_all_tasks_blocked()


def objects(proxy: FakeSessions) -> list[str]:
    return [f"{each.vhost} {getattr(each, 'name', 'binding')} {each.state}" for each in proxy.topology.entries()]


async def test_channels() -> None:
    async with opened() as proxy:
        await send(proxy, BasicQos(prefetch_count=7), BasicQosOk())
        await send(proxy, BasicQos(prefetch_count=9, global_=True), BasicQosOk())
        await send(proxy, ConfirmSelect(), ConfirmSelectOk())
        await send(proxy, BasicConsume(queue="q", consumer_tag="t"), BasicConsumeOk("t"))
        publish = Command(1, BasicPublish(routing_key="a"), body=b"body").encode(0)
        proxy.stage.client.say(publish + publish[:-20])
        await wait_all_tasks_blocked()
        first, second = channel_entries([proxy.session])
        known = {"session": 1, "connection": "c:1-p:2", "user": "guest", "vhost": "/", "name": "", "upstream": ""}
        assert first == known | {
            "channel": 1,
            "state": "open",
            "mode": "confirm",
            "prefetch": 7,
            "global_prefetch": 9,
            "consumers": 1,
            "unconfirmed": 1,
            "unacked": 0,
            "flow": {"client": True, "server": True},
            "messages": {"client": 2, "server": 0},
            "open_content": {"client": "basic.publish", "server": None},
        }
        assert (second["channel"], second["mode"], second["prefetch"]) == (2, "normal", 0)
        assert connection_entry(proxy.session)["consumers"] == 1


async def test_what_is_not_counted_is_not_known() -> None:
    async with opened() as proxy:
        proxy.session.traffic.meter.feed(False, b"no frame at all", 0.0)
        channel, _ = channel_entries([proxy.session])
        assert (channel["unconfirmed"], channel["unacked"]) == (None, None)


async def test_consumers() -> None:
    async with opened() as proxy:
        await send(proxy, BasicQos(prefetch_count=7), BasicQosOk())
        consume = BasicConsume(queue="q", consumer_tag="t", exclusive=True, arguments=Table({"x-priority": 5}))
        await send(proxy, consume, BasicConsumeOk("t"))
        await send(proxy, BasicConsume(queue="q", no_ack=True), BasicConsumeOk("amq.ctag-1"), channel=2)
        known = {"session": 1, "connection": "c:1-p:2", "user": "guest", "vhost": "/", "name": "", "upstream": ""}
        known |= {"queue": "q"}
        assert list(consumer_entries([proxy.session])) == [
            known
            | {"channel": 1, "consumer_tag": "t", "no_ack": False, "exclusive": True, "prefetch": 7}
            | {"arguments": {"x-priority": 5}},
            known
            | {"channel": 2, "consumer_tag": "amq.ctag-1", "no_ack": True, "exclusive": False, "prefetch": 0}
            | {"arguments": {}},
        ]
        proxy.session.channel_views[1].consumers.clear()
        unknown, _ = consumer_entries([proxy.session])
        assert (unknown["consumer_tag"], unknown["no_ack"], unknown["queue"]) == ("t", False, None)


async def test_rules_between_show_what_the_client_asked_for() -> None:
    """The broker declares another queue, and the client's own is what is listed."""
    async with opened('name = "rename"\naction = "rewrite"\nqueue.prefix = "tenant."') as proxy:
        await send(proxy, QueueDeclare(queue="q"), QueueDeclareOk("tenant.q"))
        assert b"tenant.q" in proxy.stage.broker.look()
        assert objects(proxy) == ["/ q declared"]


async def test_what_a_rule_refuses_is_not_declared() -> None:
    async with opened('name = "no"\naction = "refuse"\nmatch.queue = "q"') as proxy:
        await send(proxy, QueueDeclare(queue="q"))
        assert objects(proxy) == []
        assert [each["channel"] for each in channel_entries([proxy.session])] == [1, 2]
        await send(proxy, QueueDeclare(queue="other"), QueueDeclareOk("other"), channel=2)
        assert objects(proxy) == ["/ other declared"]


async def test_names_are_redacted_in_the_topology() -> None:
    redact = 'name = "redact"\naction = "redact"\nfields = ["virtual_host", "queue"]'
    async with opened(redact) as proxy:
        await send(proxy, QueueDeclare(queue="secret"), QueueDeclareOk("secret"))
        await send(proxy, QueueBind(queue="secret", exchange="x"), QueueBindOk())
        assert objects(proxy) == ["*** x declared", "*** *** declared", "*** binding declared"]
