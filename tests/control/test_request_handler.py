"""What a desk answers, and what becomes of what waits."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs
from trio.testing import MockClock, wait_all_tasks_blocked

from amqproxy import __version__
from amqproxy.amqp091.frame import every_frame
from amqproxy.amqp091.wire import Table
from amqproxy.broker.broker import Broker
from amqproxy.control.changes.access_changes import PutUser
from amqproxy.control.client_name import MOST_TEXT
from amqproxy.control.management.broker_management import BrokerManagement
from amqproxy.control.message_patch import MessagePatch
from amqproxy.control.request import (
    MANAGEMENT_REQUESTS,
    ChangeBroker,
    CloseSession,
    Hello,
    ListBrokerObjects,
    ListChannels,
    ListConnections,
    ListConsumers,
    ListHeld,
    ListRules,
    ListSessions,
    Release,
    Reload,
    ShowBroker,
    ShowStats,
    ShowTopology,
    WatchHeld,
)
from amqproxy.control.request_error import RequestError
from amqproxy.control.request_handler import ListResponse, RequestHandler, StreamedList
from amqproxy.control.statistics import Statistics
from tests.control.fake_sessions import HOLD, FakeSessions, opened


def listed(proxy: FakeSessions, request: Any) -> list[Any]:
    answer = proxy.handler.answer(request)
    assert isinstance(answer, ListResponse)
    return [each for each in answer.entries if each is not None]


async def held(proxy: FakeSessions, **keys: Any) -> list[dict[str, Any]]:
    await wait_all_tasks_blocked()
    found = listed(proxy, ListHeld(**keys))
    return msgspec.json.decode(msgspec.json.encode(found))  # type: ignore[no-any-return]


async def release(proxy: FakeSessions, **keys: Any) -> None:
    """Let go on the one that waits."""
    [one] = await held(proxy)
    assert proxy.handler.answer(Release(session=one["session"], number=one["number"], **keys)) == {}
    await wait_all_tasks_blocked()


async def test_reload(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        assert await proxy.handler.answered(Reload()) == {"rules": 1, "restart": []}
        proxy.restart = ("limits.connections",)
        assert await proxy.handler.answered(Reload()) == {"rules": 1, "restart": ["limits.connections"]}
        proxy.fault = "rules[0]: no"
        with pytest.raises(RequestError, match="no") as wrong:
            await proxy.handler.answered(Reload())
        assert wrong.value.name == "not-reloaded"


async def test_rules_and_sessions(autojump_clock: MockClock) -> None:
    shadow = 'name = "tag"\naction = "tag"\ntags = ["a"]\nmode = "shadow"\nmatch.method = "basic.publish"'
    async with opened(shadow, HOLD) as proxy:
        proxy.publish()
        assert len(await held(proxy)) == 1
        assert listed(proxy, ListRules()) == [
            {
                "name": "tag",
                "action": "tag",
                "mode": "shadow",
                "hits": 0,
                "shadow_hits": 1,
                "errors": 0,
                "verdicts": {"shadow": 1},
                "last_failure": "",
            },
            {
                "name": "look",
                "action": "hold",
                "mode": "enforce",
                "hits": 1,
                "shadow_hits": 0,
                "errors": 0,
                "verdicts": {"held": 1},
                "last_failure": "",
            },
        ]
        assert listed(proxy, ListSessions()) == [
            {
                "session": 1,
                "connection": "c:1-p:2",
                "state": "open",
                "user": "guest",
                "vhost": "/",
                "product": "",
                "name": "",
                "channels": 2,
                "paused_channels": [],
                "held": 1,
            }
        ]


async def test_hello_names_the_version_and_every_request() -> None:
    async with opened() as proxy:
        answer = proxy.handler.answer(Hello())
        assert (answer["protocol"], answer["version"]) == (1, __version__)
        assert {"hello", "connections", "stats", "subscribe", "close"} <= set(answer["requests"])
        assert "broker-queues" not in answer["requests"]  # there is no integrated broker


async def test_a_proxy_with_an_integrated_broker_answers_the_management_api() -> None:
    async with opened() as proxy:
        with pytest.raises(RequestError, match="has no integrated broker"):
            proxy.handler.answer(ShowBroker())

        async def reload() -> tuple[str, ...]:
            return ()

        management = BrokerManagement(Broker("1"), {})
        handler = RequestHandler(proxy, reload, now=lambda: 0, time=lambda: 0, management=management)
        hello = handler.answer(Hello())
        assert set(hello["requests"]) >= MANAGEMENT_REQUESTS
        assert handler.answer(ShowBroker())["alarms"] == []
        objects = handler.answer(ListBrokerObjects(kind="users"))
        assert isinstance(objects, StreamedList)
        assert [each["name"] for each in objects.entries] == ["guest"]
        change = PutUser(name="new", tags=())
        assert await handler.answered(ChangeBroker(user="guest", change=change)) == {"new": True}


async def test_connections() -> None:
    async with opened() as proxy:
        assert [entry["session"] for entry in listed(proxy, ListConnections())] == [1]


async def test_the_topology_has_consumers_and_at_last_what_was_deleted() -> None:
    async with opened(TAG) as proxy:
        await proxy.stage.play(">> 1: queue.declare\n<< 1: queue.declare-ok")
        await proxy.stage.play(">> 1: basic.consume\n<< 1: basic.consume-ok")
        await proxy.stage.play(">> 2: exchange.delete\n<< 2: exchange.delete-ok")
        proxy.topology.forgotten = 7
        answer = proxy.handler.answer(ShowTopology())
        assert isinstance(answer, ListResponse)
        assert answer.more == {"forgotten": 7}
        found = msgspec.json.decode(msgspec.json.encode([each for each in answer.entries if each is not None]))
        assert [(each["kind"], each["vhost"]) for each in found] == [("queue", "/"), ("consumer", "/")]
        assert (found[1]["queue"], found[1]["consumer_tag"]) == ("queue", "tag")
        await proxy.stage.play(">> 1: queue.delete\n<< 1: queue.delete-ok")
        without = SimpleNamespace(sessions={}, rules=proxy.rules, topology=None)
        with pytest.raises(RequestError, match="no note"):
            RequestHandler(without, tuple, now=float, time=float).answer(ShowTopology())
        assert listed(proxy, ShowTopology(vhost="other", deleted=True)) == []
        assert [type(each).__name__ for each in listed(proxy, ShowTopology(vhost="/", deleted=True))] == [
            "dict",
            "ObservedQueue",
        ]


TAG = 'name = "tag"\naction = "tag"\ntags = ["a"]'


async def test_stats(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        with pytest.raises(RequestError, match="counts nothing"):
            proxy.handler.answer(ShowStats())
        registry = proxy.stage.metrics.registry
        statistics = Statistics(registry, lambda: (0.0, 0.0), started=1400.0, time=lambda: 1500.0)
        handler = RequestHandler(
            SimpleNamespace(sessions={}, rules=proxy.rules), tuple, now=float, time=float, statistics=statistics
        )
        answer = handler.answer(ShowStats())
        assert isinstance(answer, ListResponse)
        assert answer.more["stats"]["uptime"] == 100.0
        assert "amqproxy_channels" in {each["name"] for each in answer.entries}


async def test_sessions_show_what_redactions_leave() -> None:
    redact = 'name = "redact"\naction = "redact"\narguments = ["product"]\nfields = ["virtual_host"]'
    async with opened(redact) as proxy:
        interceptor = proxy.session.interceptor
        client = msgspec.structs.replace(interceptor.client, properties={"product": "s3cret", "platform": "x"})
        interceptor._evaluation.know(client)
        [entry] = listed(proxy, ListSessions())
        assert (entry["product"], entry["vhost"], entry["user"]) == ("***", "***", "guest")
        assert interceptor.client.properties["product"] == "s3cret"


async def test_what_is_delayed_is_not_held() -> None:
    limit = 'name = "slow"\naction = "limit"\nof = "messages"\nrate = 0.05\nburst = 1'
    async with opened(limit) as proxy:
        proxy.publish()
        proxy.publish()
        assert await held(proxy) == []
        [number] = proxy.session.interceptor.waiting
        with pytest.raises(RequestError, match="nothing held") as wrong:
            proxy.handler.answer(Release(session=1, number=number))
        assert wrong.value.name == "not-held"
        assert proxy.handler.held(proxy.session, number, 10) is None
        assert proxy.handler.held(proxy.session, 99, 10) is None


async def test_what_is_held_is_shown_as_much_as_is_asked(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.publish("key", b"0123456789")
        [one] = await held(proxy, body=3)
        assert (one["arguments"]["routing_key"], one["size"], one["body"]) == ("key", 10, "012")
        assert one["until"] - one["since"] == 60
        assert listed(proxy, WatchHeld(body=3)) == listed(proxy, ListHeld(body=3))


async def test_what_is_gone_by_the_time_that_it_is_its_turn_is_left_out(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.publish()
        proxy.stage.client.perform("2: queue.declare")
        await wait_all_tasks_blocked()
        answer = proxy.handler.answer(ListHeld())
        assert isinstance(answer, ListResponse)
        first = next(answer.entries)
        for number in (first.number, first.number + 1):
            proxy.handler.answer(Release(session=1, number=number))
        assert not any(answer.entries)


async def test_for_what_is_held_one_session_is_looked_at_at_a_time(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.publish()
        await wait_all_tasks_blocked()
        proxy.sessions.update({number: SimpleNamespace(interceptor=None) for number in range(1000, 1100)})
        answer = proxy.handler.answer(ListHeld())
        assert isinstance(answer, ListResponse)
        assert [each is None for each in answer.entries] == [False] + [True] * 101


async def test_clients_may_call_themselves_what_they_like() -> None:
    """By bytes that are no UTF-8, tables, or texts without end."""
    async with opened() as proxy:
        interceptor = proxy.session.interceptor
        properties = {"product": "a\udcff", "connection_name": Table({"x": "\udc80"})}
        client = msgspec.structs.replace(
            interceptor.client, user="\udcfe" * 10_000, vhost="v\udcff", properties=properties
        )
        interceptor._evaluation.know(client)
        [entry] = listed(proxy, ListSessions())
        shown = msgspec.json.decode(msgspec.json.encode(entry))
    assert (shown["product"], shown["vhost"]) == ("a\\udcff", "v\\udcff")
    assert not shown["name"]  # RabbitMQ, too, shows a connection_name only if it is a text
    assert len(shown["user"]) == 6 * MOST_TEXT


# --- what becomes of it


async def test_it_passes_as_it_is(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.stage.client.perform("1: basic.publish, 1: header 5, 1: body 5, 1: basic.ack")
        await release(proxy)
        assert await proxy.stage.broker.sees() == "1: basic.publish, 1: header 5, 1: body 5, 1: basic.ack"


async def test_it_passes_edited(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.publish("old", b"old", headers=Table({"a": 1}), priority=4)
        edit = MessagePatch(
            fields={"routing_key": "new"}, headers={"b": 2}, properties={"priority": None}, body="newer"
        )
        await release(proxy, edit=edit)
        method, header, body = every_frame(proxy.stage.broker.look(), 0)
        assert (method.method.exchange, method.method.routing_key) == ("x", "new")
        assert (header.header.properties.headers, header.header.properties.priority) == ({"a": 1, "b": 2}, None)
        assert (header.header.body_size, body.payload) == (5, b"newer")


@pytest.mark.parametrize(
    ("edit", "name"),
    [({"fields": {"queue": "x"}}, "wrong-edit"), ({"headers": {"x": {"base64": "%"}}}, "wrong-edit")],
)
async def test_a_wrong_edit_leaves_it_waiting(edit: Any, name: str, autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.publish()
        with pytest.raises(RequestError) as wrong:
            await release(proxy, edit=MessagePatch(**edit))
        assert wrong.value.name == name
        assert len(await held(proxy)) == 1


async def test_what_another_rule_refuses_is_not_edited(autojump_clock: MockClock) -> None:
    refuse = 'name = "no"\naction = "refuse"\nmatch.method = "basic.publish"'
    async with opened(HOLD, refuse) as proxy:
        proxy.publish()
        [one] = await held(proxy)
        assert one["will"] == "go no further"
        with pytest.raises(RequestError) as wrong:
            await release(proxy, edit=MessagePatch(body="x"))
        assert wrong.value.name == "not-passing"
        await release(proxy)
        assert await proxy.stage.client.sees() == "1: channel.close 403"


@pytest.mark.parametrize(
    ("sent", "release_", "client", "broker"),
    [
        ("1: basic.publish, 1: header 0", {"verdict": "drop"}, "nothing", "nothing"),
        ("1: basic.publish, 1: header 0", {"verdict": "refuse"}, "1: channel.close 403", "1: channel.close 200"),
        ("1: basic.publish, 1: header 0", {"verdict": "refuse", "code": 311}, "1: channel.close 311", None),
        (
            "1: basic.publish, 1: header 0",
            {"verdict": "refuse", "way": "return"},
            "1: basic.return, 1: header 0",
            "nothing",
        ),
        ("1: queue.declare", {"verdict": "refuse", "code": 320}, "connection.close 320", "connection.close 320"),
    ],
)
async def test_it_goes_no_further(
    sent: str, release_: dict[str, Any], client: str, broker: str | None, autojump_clock: MockClock
) -> None:
    async with opened() as proxy:
        proxy.stage.client.perform(sent)
        await release(proxy, **release_)
        assert await proxy.stage.client.sees() == client
        if broker is not None:
            assert await proxy.stage.broker.sees() == broker


@pytest.mark.parametrize(
    ("decision", "logged"),
    [
        ({}, "released"),
        ({"edit": MessagePatch(body="x")}, "edited and released"),
        ({"verdict": "refuse"}, "refused"),
        ({"verdict": "drop"}, "dropped"),
    ],
)
async def test_the_log_has_what_an_operator_decided(
    decision: dict[str, Any], logged: str, autojump_clock: MockClock
) -> None:
    with capture_logs() as log:
        async with opened() as proxy:
            proxy.publish(body=b"confidential")
            await release(proxy, **decision)
    [line] = [each for each in log if "operator" in each["event"]]
    assert line["event"] == f"basic.publish on channel 1, held by rule 'look', {logged} by an operator"
    assert (line["log_level"], line["session"], line["user"]) == ("info", 1, "guest")


async def test_a_refusal_names_the_rule_or_has_the_text_of_the_request(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.stage.client.perform("1: queue.declare, 2: queue.declare")
        await wait_all_tasks_blocked()
        first, second = (each.number for each in listed(proxy, ListHeld()))
        proxy.handler.answer(Release(session=1, number=first, verdict="refuse"))
        proxy.handler.answer(Release(session=1, number=second, verdict="refuse", text="not {user}"))
        await wait_all_tasks_blocked()
        texts = [frame.method.reply_text for frame in every_frame(proxy.stage.client.look(), 0)]
        assert "refused for user 'guest' by rule 'look'" in texts[0]
        assert texts[1] == "not {user}"


async def test_what_a_peer_waits_for_is_neither_refused_nor_dropped(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        proxy.stage.client.perform("1: queue.declare")
        with pytest.raises(RequestError, match=r"queue\.declare has no `drop`: there is close") as wrong:
            await release(proxy, verdict="drop")
        assert wrong.value.name == "not-refusable"
        await release(proxy)
        proxy.stage.broker.perform("1: queue.declare-ok")
        for verdict in ("drop", "refuse"):
            with pytest.raises(RequestError, match=r"queue\.declare-ok of the server cannot be refused"):
                await release(proxy, verdict=verdict)
        await release(proxy)
        assert await proxy.stage.client.sees() == "1: queue.declare-ok"


@pytest.mark.parametrize(("session", "number", "name"), [(9, 1, "no-session"), (1, 99, "not-held")])
async def test_what_is_not_there(session: int, number: int, name: str, autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        with pytest.raises(RequestError) as wrong:
            proxy.handler.answer(Release(session=session, number=number))
        assert wrong.value.name == name


async def test_a_session_is_closed_with_the_text_that_is_given(autojump_clock: MockClock) -> None:
    async with opened() as proxy:
        number = proxy.session.number
        assert proxy.handler.answer(CloseSession(session=number, text="please reconnect")) == {}
        await proxy.stage.play("""
            client: connection.close 320
            broker: connection.close 320
        """)
        assert proxy.stage.client.seen.count(b"please reconnect") == 1
        assert proxy.session._report.end == ("proxy", 320, "please reconnect", False, False)
        with pytest.raises(RequestError, match="there is no session 99") as wrong:
            proxy.handler.answer(CloseSession(session=99))
        assert wrong.value.name == "no-session"


@pytest.mark.parametrize("request_", [ListChannels(), ListConsumers(), ShowTopology(vhost="another"), ListRules()])
async def test_sessions_of_which_nothing_is_listed_take_their_time_one_by_one(request_: Any) -> None:
    """Else ten thousand of them would be looked at in one turn of the loop."""
    async with opened() as proxy:
        for number in range(2, 12):
            proxy.sessions[number] = proxy.session
        answer = proxy.handler.answer(request_)
        assert isinstance(answer, ListResponse)
        assert list(answer.entries).count(None) >= 11
