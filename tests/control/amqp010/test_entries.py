"""Sessions of AMQP 0-10 as the control socket lists them."""

from __future__ import annotations

from amqproxy.amqp010.commands import DtxSelect, MessageSubscribe, TxSelect
from amqproxy.amqp010.controls import SessionAttach, SessionCompleted, SessionDetach
from amqproxy.amqp010.wire import Map
from amqproxy.control.session_entries import channel_entries, connection_entry, consumer_entries
from amqproxy.peer import CLIENT, SERVER
from amqproxy.rules.engine.evaluator import RuleSet
from amqproxy.taps.topology.observed_topology import ObservedTopology
from tests.control.fake_sessions import opened
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES, ids, method
from tests.proxy.amqp010_stage import close, play
from tests.proxy.stage import staged
from tests.rules.scene import rule


async def test_a_connection_with_its_sessions_and_subscriptions() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, *MESSAGES[:5], (CLIENT, method(TxSelect()))])
        entry = connection_entry(stage.session)
        assert entry | {"connected_at": 0, "bytes": {}} == {
            "session": 1,
            "connection": "c:1-p:2",
            "connected_at": 0,
            "protocol": "0-10",
            "state": "open",
            "user": "guest",
            "vhost": "test",
            "mechanism": "PLAIN",
            "relayed_by": "event loop",
            "tls": False,
            "tls_subject": "",
            "product": "tests",
            "product_version": "",
            "platform": "",
            "name": "",
            "upstream": "",
            "channel_max": 16,
            "frame_max": 4096,
            "heartbeat": 60,
            "blocked": False,
            "channels": 1,
            "paused_channels": [],
            "consumers": 1,
            "bytes": {},
        }
        assert entry["bytes"] == {"client": len(stage.client.said), "server": len(stage.broker.said)}
        (channel,) = channel_entries([stage.session])
        assert {
            "vhost": "test",
            "channel": 1,
            "session_name": "s",
            "state": "open",
            "mode": "tx",
            "unconfirmed": 0,
            "unacked": 3,
            "messages": {"client": 3, "server": 4},
        }.items() <= channel.items()
        (consumer,) = consumer_entries([stage.session])
        assert {"queue": None, "consumer_tag": "d", "no_ack": False, "exclusive": False}.items() <= consumer.items()
        await close(stage)


async def test_a_subscription_has_its_queue_and_arguments_once_it_is_complete() -> None:
    subscribe = MessageSubscribe("q", "d", arguments=Map({"x": 1}))
    completed = SessionCompleted(ids((0, 0)))
    async with staged(topology=ObservedTopology()) as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(subscribe))])
        assert [(each["queue"], each["arguments"]) for each in consumer_entries([stage.session])] == [(None, None)]
        await play(stage, [(SERVER, method(completed))])
        assert [(each["queue"], each["arguments"]) for each in consumer_entries([stage.session])] == [("q", {"x": 1})]
        await close(stage)


async def test_a_queue_that_is_redacted_is_never_shown() -> None:
    masked = RuleSet([rule('action = "redact"\nfields = ["queue"]')])
    async with staged(topology=ObservedTopology(), rules=masked) as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(MessageSubscribe("q", "d")))])
        assert [each["queue"] for each in consumer_entries([stage.session])] == [None]
        await play(stage, [(SERVER, method(SessionCompleted(ids((0, 0)))))])
        assert [each["queue"] for each in consumer_entries([stage.session])] == ["***"]
        await close(stage)


async def test_sessions_may_be_attached_while_they_are_listed() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH])
        listing = channel_entries([stage.session])
        assert next(listing)["channel"] == 1
        await play(stage, [(CLIENT, method(SessionAttach(b"t"), channel=2))])
        assert list(listing) == []
        await close(stage)


async def test_a_session_that_is_ended_by_one_side_is_not_open() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, (SERVER, method(SessionDetach(b"s")))])
        (channel,) = channel_entries([stage.session])
        assert channel["state"] == "detaching by server"
        await close(stage)


async def test_a_session_for_distributed_transactions() -> None:
    async with staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, (CLIENT, method(DtxSelect()))])
        (channel,) = channel_entries([stage.session])
        assert channel["mode"] == "dtx"
        await close(stage)


async def test_the_keys_are_those_of_0_9_1() -> None:
    async with opened() as proxy, staged() as stage:
        await play(stage, [*LOGIN, *ATTACH, MESSAGES[3]])
        assert set(connection_entry(stage.session)) == set(connection_entry(proxy.session))
        (of_091, *_), (of_010,) = channel_entries([proxy.session]), channel_entries([stage.session])
        assert set(of_010) == {*of_091, "session_name"}
        await close(stage)
