"""Two legs that differ: what a real client sees of it, in front of RabbitMQ and of our own broker."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import aio_pika
import aiormq.exceptions
import pamqp.commands
import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from tests.real.pika_connection import connected
from tests.real.poll import until
from tests.real.proxy import Proxy, StartProxy
from tests.real.raw import Peer, body, header, method, publish

pytestmark = [pytest.mark.real, pytest.mark.once]

Rule = dict[str, Any]
Ruled = Callable[..., Proxy]


@pytest.fixture(params=["rabbitmq", "own_broker"])
def ruled(request: pytest.FixtureRequest, start_proxy: StartProxy) -> Ruled:
    """A proxy with some rules in front of each broker."""
    port = request.getfixturevalue(request.param).port

    def start(*rules: Rule, options: tuple[str, ...] = (), **config: Any) -> Proxy:
        named = [{"name": f"rule {number}"} | rule for number, rule in enumerate(rules)]
        return start_proxy(port, *options, rules=named, **config)

    return start


def refuse(key: str, **keys: Any) -> Rule:
    return {"action": "refuse", "match": {"method": "basic.publish", "routing_key": f"topic:#.{key}"}} | keys


EACH_WAY = [
    refuse("nack", **{"with": "nack"}),
    refuse("return", **{"with": "return"}),
    refuse("drop", **{"with": "drop"}),
    refuse("close"),
]


def with_queue(channel: BlockingChannel) -> str:
    """A queue that gets all that is published to amq.topic under a.#."""
    queue: str = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_bind(queue, "amq.topic", "a.#")
    return queue


def bodies(channel: BlockingChannel, queue: str) -> list[bytes]:
    """What the queue has, taken out of it."""
    found = []
    while (got := channel.basic_get(queue, auto_ack=True))[0] is not None:
        found.append(got[2])
    return found


def closed(connection: BlockingConnection, channel: BlockingChannel) -> bool:
    """Is it, once the client has listened?"""
    connection.process_data_events(0.01)
    return bool(channel.is_closed)


# --- confirms, and what is refused of them


def test_each_of_many_publishes_at_once_is_confirmed_or_nacked(ruled: Ruled) -> None:
    """The numbers of the client stay, though the broker receives half of the publishes, and answers with `multiple`."""
    proxy = ruled(*EACH_WAY)

    async def publish(exchange: aio_pika.abc.AbstractExchange, number: int) -> str:
        kind = ("ok", "nack", "return", "drop", "unroutable")[number % 5]
        key = "nowhere" if kind == "unroutable" else f"a.{kind}"
        try:
            await exchange.publish(aio_pika.Message(str(number).encode()), key, mandatory=True)
        except aiormq.exceptions.DeliveryError as error:
            return "nack" if isinstance(error.frame, pamqp.commands.Basic.Nack) else "returned"
        return "confirmed"

    async def talk() -> tuple[list[str], list[int]]:
        async with await aio_pika.connect(f"amqp://guest:guest@127.0.0.1:{proxy.port}/") as connection:
            channel = await connection.channel(on_return_raises=True)
            queue = await channel.declare_queue("", exclusive=True)
            exchange = await channel.get_exchange("amq.topic")
            await queue.bind(exchange, "a.#")
            outcomes = await asyncio.gather(*(publish(exchange, number) for number in range(500)))
            received = []
            while (message := await queue.get(no_ack=True, fail=False)) is not None:
                received.append(int(message.body))
            return outcomes, received

    outcomes, received = asyncio.run(asyncio.wait_for(talk(), 60))
    expected = {0: "confirmed", 1: "nack", 2: "returned", 3: "confirmed", 4: "returned"}
    assert outcomes == [expected[number % 5] for number in range(500)]
    assert received == [number for number in range(500) if number % 5 == 0]
    assert "Traceback" not in proxy.log


def test_without_confirms_a_publish_is_lost_returned_or_closes_its_channel(ruled: Ruled) -> None:
    with connected(ruled(*EACH_WAY)) as connection:
        channel, observer = connection.channel(), connection.channel()
        queue = with_queue(observer)
        returned: list[bytes] = []
        channel.add_on_return_callback(lambda *values: returned.append(values[3]))
        for kind in ("ok", "drop", "return", "ok"):
            channel.basic_publish("amq.topic", f"a.{kind}", kind.encode(), mandatory=True)
        channel.queue_declare("", exclusive=True)
        assert bodies(observer, queue) == [b"ok", b"ok"]
        connection.process_data_events(0)
        assert returned == [b"return"]
        channel.basic_publish("amq.topic", "a.nack", b"x")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="403"):
            channel.queue_declare("", exclusive=True)


def test_a_channel_that_is_closed_is_used_again_and_the_others_never_notice(ruled: Ruled) -> None:
    with connected(ruled(*EACH_WAY)) as connection:
        other = connection.channel()
        other.confirm_delivery()
        queue = with_queue(other)
        for _ in range(20):
            channel = connection.channel(channel_number=7)
            channel.basic_publish("amq.topic", "a.ok", b"before")
            channel.basic_publish("amq.topic", "a.close", bytes(300_000))
            with suppress(
                pika.exceptions.ChannelWrongStateError, pika.exceptions.ChannelClosedByBroker
            ):  # it may have received it already
                channel.basic_publish("amq.topic", "a.ok", b"behind")
            other.basic_publish("amq.topic", "a.ok", b"other", mandatory=True)
            until(partial(closed, connection, channel), "the channel to be closed")
        channel = connection.channel(channel_number=7)
        channel.confirm_delivery()
        channel.basic_publish("amq.topic", "a.ok", b"last", mandatory=True)
        found = bodies(other, queue)
        assert (found.count(b"before"), found.count(b"other"), found[-1]) == (20, 20, b"last")
        assert len(found) == 41


def test_a_transaction_without_what_was_refused_of_it(ruled: Ruled) -> None:
    with connected(ruled(*EACH_WAY)) as connection:
        channel = connection.channel()
        queue = with_queue(channel)
        channel.tx_select()
        for end in (channel.tx_commit, channel.tx_rollback, channel.tx_commit):
            for kind in ("ok", "drop"):
                channel.basic_publish("amq.topic", f"a.{kind}", f"{end.__name__} {kind}".encode())
            end()
        assert bodies(channel, queue) == [b"tx_commit ok"] * 2


def test_a_transaction_of_acks_where_some_deliveries_were_withheld(ruled: Ruled) -> None:
    deliveries = {"method": "basic.get-ok", "routing_key": "a.hidden"}
    with connected(ruled({"action": "refuse", "with": "drop", "match": deliveries})) as connection:
        channel = connection.channel()
        queue = with_queue(channel)
        for key in ("hidden", "one", "hidden", "two", "three"):
            channel.basic_publish("amq.topic", f"a.{key}", key.encode())
        channel.tx_select()
        got = [channel.basic_get(queue) for _ in range(5)]
        assert [body for _, _, body in got] == [None, b"one", None, b"two", b"three"]
        assert [method.delivery_tag for method, _, _ in got if method] == [1, 2, 3]
        channel.basic_ack(2, multiple=True)
        channel.tx_rollback()
        channel.basic_ack(2, multiple=True)
        channel.tx_commit()
        channel.basic_nack(3)
        channel.tx_commit()
        assert bodies(channel, queue) == [b"three"]


# --- deliveries that do not come as the broker sent them


def consumed(proxy: Proxy, keys: list[str], acks: Callable[[BlockingChannel, list[Any]], None], awaited: int) -> Any:
    """What a consumer is delivered, after it has settled that; then what its queue still has."""
    with connected(proxy) as connection:
        channel = connection.channel()
        queue = with_queue(channel)
        for number, key in enumerate(keys):
            channel.basic_publish("amq.topic", f"a.{key}", f"{key} {number}".encode())
        got: list[Any] = []
        channel.basic_consume(queue, lambda _, method, __, body: got.append((method, body)))

        def all_came() -> bool:
            connection.process_data_events(0.05)
            return len(got) >= awaited

        until(all_came, "the deliveries")
        acks(channel, [method for method, _ in got])
        channel.close()
        channel = connection.channel()
        return [body for _, body in got], [method.delivery_tag for method, _ in got], bodies(channel, queue)


def fault(kind: str, nth: int, **keys: Any) -> Rule:
    return {"action": "fault", "fault": {"kind": kind} | keys, "match": {"method": "basic.deliver"}, "nth": nth}


def test_deliveries_withheld_doubled_and_overtaken_are_acked_under_the_clients_numbers(ruled: Ruled) -> None:
    hidden = {"method": "basic.deliver", "routing_key": "a.hidden"}
    rules = [
        {"action": "refuse", "with": "drop", "match": hidden},
        fault("duplicate", 2),
        fault("reorder", 4, behind=1),
    ]
    keys = ["hidden", "k", "k", "hidden", "k", "k", "k"]

    def ack_all(channel: BlockingChannel, methods: list[Any]) -> None:
        channel.basic_ack(methods[-1].delivery_tag, multiple=True)

    got, tags, left = consumed(ruled(*rules), keys, ack_all, 6)
    assert sorted(got) == sorted([b"k 1", b"k 2", b"k 4", b"k 5", b"k 6", got[[*got].index(b"k 1") + 1]])
    assert tags == [1, 2, 3, 4, 5, 6]
    assert left == []

    def ack_first_two(channel: BlockingChannel, methods: list[Any]) -> None:
        channel.basic_ack(methods[0].delivery_tag)
        channel.basic_reject(methods[1].delivery_tag, requeue=False)

    got, tags, left = consumed(ruled({"action": "refuse", "with": "reject", "match": hidden}), keys, ack_first_two, 5)
    assert (got, tags) == ([b"k 1", b"k 2", b"k 4", b"k 5", b"k 6"], [1, 2, 3, 4, 5])
    assert sorted(left) == [b"k 4", b"k 5", b"k 6"]


def test_a_delivery_that_is_requeued_comes_again(ruled: Ruled) -> None:
    once = {"method": "basic.deliver"}
    rule = {"action": "refuse", "with": "requeue", "match": once, "when": "!fields.redelivered"}

    def ack_all(channel: BlockingChannel, methods: list[Any]) -> None:
        assert all(method.redelivered for method in methods)
        channel.basic_ack(0, multiple=True)

    got, tags, left = consumed(ruled(rule), ["k"] * 3, ack_all, 3)
    assert sorted(got) == [b"k 0", b"k 1", b"k 2"]
    assert (tags, left) == ([1, 2, 3], [])


# --- bodies that grow, and the frames of each leg


def test_a_body_that_grows_keeps_to_each_legs_frame_max(ruled: Ruled) -> None:
    grow = {"body": {"replace": [{"text": "x", "with": "x" * 50}]}}
    tune = {"tune": {"frame_max": 8192}}
    proxy = ruled({"action": "rewrite", "match": {"method": "basic.publish"}} | grow, {"action": "rewrite"} | tune)
    with connected(proxy) as connection:
        assert connection._impl.params.frame_max == 8192
        channel = connection.channel()
        queue = with_queue(channel)
        channel.confirm_delivery()
        for size in (1, 163, 5000, 20_000):
            channel.basic_publish("amq.topic", "a", b"x" * size, mandatory=True)
            assert channel.basic_get(queue, auto_ack=True)[2] == b"x" * size * 50


# --- names


def test_names_that_the_broker_gives_stay_and_others_come_back(ruled: Ruled) -> None:
    names = {"exchange": {"prefix": "t."}, "queue": {"prefix": "t."}, "consumer_tag": {"prefix": "t."}}
    with connected(ruled({"action": "rewrite"} | names)) as connection:
        channel = connection.channel()
        given = channel.queue_declare("", exclusive=True).method.queue
        assert given.startswith("amq.gen")
        named = channel.queue_declare("legs", exclusive=True, arguments={"x-dead-letter-exchange": "legs-dead"})
        assert named.method.queue == "legs"
        channel.exchange_declare("legs-dead", "fanout", auto_delete=True)
        channel.queue_bind(given, "legs-dead")
        got: list[tuple[str, str, Any]] = []

        def take(_: Any, method: Any, properties: Any, __: bytes) -> None:
            died = (properties.headers or {}).get("x-death", [{}])[0]
            got.append((method.consumer_tag, method.exchange, died.get("queue")))
            channel.basic_nack(method.delivery_tag, requeue=False)

        channel.basic_publish("", "legs", b"x")
        assert channel.basic_consume("legs", take, consumer_tag="mine") == "mine"
        tag = channel.basic_consume(given, take, consumer_tag="")
        assert tag

        def both() -> bool:
            connection.process_data_events(0.05)
            return len(got) == 2

        until(both, "the message, and then it as a dead letter")
        assert got == [("mine", "", None), (tag, "legs-dead", "legs")]
        channel.basic_cancel(tag)
        channel.basic_cancel("mine")
        channel.basic_publish("nowhere", "k", b"x")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="no exchange 'nowhere' in vhost"):
            channel.queue_declare("", exclusive=True)


def test_the_names_of_another_prefix_are_others(ruled: Ruled) -> None:
    proxy = ruled({"action": "rewrite", "queue": {"prefix": "{client.properties.tenant}."}})
    one, two = ({"client_properties": {"tenant": tenant}} for tenant in ("one", "two"))
    with connected(proxy, **one) as first, connected(proxy, **two) as second:
        for connection in (first, second):
            channel = connection.channel()
            assert channel.queue_declare("shared", exclusive=True).method.queue == "shared"
            channel.basic_publish("", "shared", b"x")
        assert second.channel().queue_declare("shared", passive=True).method.message_count <= 1


# --- what fails, what only counts, and what is reloaded


def test_a_rule_that_raises_is_541_and_the_connection_lives(ruled: Ruled, tmp_path: Any) -> None:
    (tmp_path / "broken.py").write_text("def publish(command, context):\n    return 1 / command.body_size\n")
    proxy = ruled({"action": "script", "file": "broken.py"}, options=("--metrics", "127.0.0.1:0"))
    with connected(proxy) as connection:
        other = connection.channel()
        for _ in range(3):
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match=r"541.*rule 'rule 0' failed"):
                channel.basic_publish("amq.topic", "a", b"")
        other.queue_declare("", exclusive=True)
    until(lambda: proxy.log.count("verdict=refused") == 3, "three refusals in the log")
    assert "rule failed" in proxy.log
    assert "rule 'rule 0' failed: broken.py:2: ZeroDivisionError" in proxy.log


def test_in_shadow_nothing_changes_and_all_is_counted(ruled: Ruled, tmp_path: Any) -> None:
    rules = [each | {"mode": "shadow"} for each in EACH_WAY]
    rewrite = {"action": "rewrite", "mode": "shadow", "routing_key": "other", "headers": {"set": {"a": 1}}}
    proxy = ruled(*rules, rewrite, control={"path": "control"})
    with connected(proxy) as connection:
        channel = connection.channel()
        queue = with_queue(channel)
        channel.confirm_delivery()
        for kind in ("ok", "nack", "return", "drop", "close"):
            channel.basic_publish("amq.topic", f"a.{kind}", kind.encode(), mandatory=True)
        assert bodies(channel, queue) == [b"ok", b"nack", b"return", b"drop", b"close"]
    from amqproxy.control.control_client import ControlClient

    with ControlClient(tmp_path / "control") as asked:
        counts = {each["name"]: (each["hits"], each["shadow_hits"]) for each in asked.ask("rules")["rules"]}
    assert [counts[f"rule {number}"] for number in range(4)] == [(0, 1)] * 4
    assert counts["rule 4"][0] == 0
    assert counts["rule 4"][1] >= 5


def test_a_reload_reaches_those_who_are_connected(ruled: Ruled, tmp_path: Any) -> None:
    proxy = ruled({"action": "rewrite", "queue": {"prefix": "old."}})
    [config] = tmp_path.glob("proxy-*.yaml")
    settings = json.loads(config.read_text())

    def reload(rules: Any, event: str) -> None:
        before = proxy.log.count(event)
        config.write_text(json.dumps(settings | {"rules": rules}))
        proxy.process.send_signal(signal.SIGHUP)
        until(lambda: proxy.log.count(event) > before, event)

    with connected(proxy) as connection, connected(proxy) as other:
        channel, quiet = connection.channel(), other.channel()
        channel.queue_declare("reloaded", exclusive=True)
        got: list[str] = []
        channel.basic_consume("reloaded", lambda *values: got.append(values[1].routing_key), auto_ack=True)
        reload([{"name": "bad", "action": "refues"}], "rules not reloaded")
        until(lambda: "rules[0]" in proxy.log, "the place of the error")
        reload([], "rules reloaded")
        channel.basic_publish("", "old.reloaded", b"x")  # the name that the broker knows it by

        def one_came() -> bool:
            connection.process_data_events(0.05)
            return bool(got)

        until(one_came, "the message")
        reload([{"name": "none", "action": "refuse", "match": {"method": "queue.declare"}}], "rules reloaded")
        for each in (channel, quiet):
            with pytest.raises(pika.exceptions.ChannelClosedByBroker, match="by rule 'none'"):
                each.queue_declare("", exclusive=True)
        assert connection.is_open
        assert other.is_open


# --- logins


def test_a_client_that_may_not_log_in_is_closed_if_it_has_the_capability(ruled: Ruled) -> None:
    rule = {"action": "refuse", "match": {"method": "connection.start-ok", "user": "guest"}, "text": "not you, {user}"}
    proxy = ruled(rule)
    refused = pytest.raises(pika.exceptions.ProbableAuthenticationError, match=r"403.*not you, guest")
    with refused, connected(proxy):
        pass
    dumb = {"capabilities": {"authentication_failure_close": False}}
    refused = pytest.raises(pika.exceptions.AMQPConnectionError)
    with refused as failed, connected(proxy, client_properties=dumb):
        pass
    assert "403" not in str(failed.value)


def test_a_connection_to_another_vhost_and_what_it_agrees_on_are_refused(ruled: Ruled) -> None:
    rules = [
        {"action": "refuse", "match": {"method": "connection.open", "vhost": "!/"}},
        {"action": "refuse", "match": {"method": "connection.tune-ok", "client": {"tune": True}}},
    ]
    proxy = ruled(*rules)
    with pytest.raises(pika.exceptions.AMQPConnectionError, match="530"), connected(proxy, virtual_host="no"):
        pass
    refused = pytest.raises(pika.exceptions.AMQPConnectionError, match="530")
    with refused, connected(proxy, client_properties={"tune": True}):
        pass
    with connected(proxy) as connection:
        assert connection.is_open


# --- copies


def test_a_copy_goes_to_another_exchange_and_to_another_upstream(ruled: Ruled, own_broker: Any, tmp_path: Any) -> None:
    (tmp_path / "password").write_text("guest\n")
    away = {"address": f"127.0.0.1:{own_broker.port}", "user": "guest", "password_file": "password"}
    published = {"method": "basic.publish", "exchange": "amq.direct"}
    proxy = ruled(
        {"action": "mirror", "match": published, "exchange": "amq.topic", "routing_key": {"prefix": "a."}},
        {"action": "mirror", "match": published, "exchange": "amq.fanout", "upstream": "away"},
        upstreams={"away": away},
    )
    with connected(proxy) as connection:
        parameters = pika.ConnectionParameters("127.0.0.1", own_broker.port)
        elsewhere = pika.BlockingConnection(parameters)
        try:
            far = elsewhere.channel()
            far_queue = far.queue_declare("", exclusive=True).method.queue
            far.queue_bind(far_queue, "amq.fanout")
            channel = connection.channel()
            near_queue = with_queue(channel)
            for number in range(20):
                channel.basic_publish("amq.direct", "k", str(number).encode())

            def of(queue: str, on: BlockingChannel) -> list[bytes]:
                found: list[bytes] = []

                def all_came() -> bool:
                    found.extend(bodies(on, queue))
                    return len(found) == 20

                until(all_came, "the copies")
                return found

            expected = [str(number).encode() for number in range(20)]
            assert of(near_queue, channel) == expected
            assert of(far_queue, far) == expected
        finally:
            elsewhere.close()


def test_a_channel_that_the_broker_closes_in_the_middle_of_a_publish_costs_no_other(ruled: Ruled) -> None:
    """Told nothing of the rest, RabbitMQ would end the connection with 505 at channel.close-ok."""
    proxy = ruled({"action": "refuse", "match": {"method": "queue.purge"}})
    with Peer.opened(proxy.port, 1, 2) as peer:
        peer.send(publish(1, "k", exchange="there-is-none"), header(1, 1), body(1, b"x"), publish(1, "k"))
        closed = peer.read()
        assert closed is not None
        assert closed.close is not None
        assert closed.close.code == 404
        peer.send(header(1, 3), body(1, b"abc"), method(1, 20, 41))  # channel.close-ok
        assert peer.declare(2)
