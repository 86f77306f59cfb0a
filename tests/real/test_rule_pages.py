"""The examples in the documentation of rules, each run as it stands, in front of RabbitMQ and a real client."""

from __future__ import annotations

import datetime
import json
import re
import shutil
import time
import tomllib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest
from pika.adapters.blocking_connection import BlockingChannel, BlockingConnection

from amqproxy.control.control_client import ControlClient
from tests.real.poll import DEADLINE, until
from tests.real.proxy import Program, command
from tests.real.rabbitmq import RabbitMQ
from tests.rule_examples import DOCS, EXAMPLES

pytestmark = [pytest.mark.real, pytest.mark.once]  # each rule has tests of its own, which run plain too

USERS = ["reports", "orders-1", "ops", "ops-1", "deployment", "proxy"]
"""Who else may log in at the broker, all with the same password."""

PASSWORD = "s3cret"
VHOSTS = ["staging", "internal"]

LISTENING = re.compile(r"listening\b.*\baddress=([0-9.]+):(\d+)")


@pytest.fixture(scope="module")
def inhabited(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """RabbitMQ with the users and virtual hosts that examples speak of."""
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    definitions = {
        "users": [{"name": name, "password": PASSWORD, "tags": ""} for name in USERS],
        "vhosts": [{"name": name} for name in VHOSTS],
        "permissions": [
            {"user": name, "vhost": vhost} | everything for name in [*USERS, "guest"] for vhost in ["/", *VHOSTS]
        ],
    }
    file = tmp_path_factory.mktemp("definitions") / "definitions.json"
    file.write_text(json.dumps(definitions))
    rabbitmq.ctl("import_definitions", str(file))
    yield rabbitmq
    users, vhosts = (", ".join(f'<<"{name}">>' for name in names) for names in (USERS, VHOSTS))
    rabbitmq.ctl("eval", f'[rabbit_auth_backend_internal:delete_user(U, <<"test">>) || U <- [{users}]].')
    rabbitmq.ctl("eval", f'[rabbit_vhost:delete(V, <<"test">>) || V <- [{vhosts}]].')


class Example:
    """A proxy with the rules of one example, and RabbitMQ behind it."""

    def __init__(self, directory: Path, rules: str, rabbitmq: RabbitMQ, stack: ExitStack) -> None:
        self.rabbitmq = rabbitmq
        self._stack = stack
        self._socket = directory / "control"
        for file in (DOCS / "rules").glob("*.py"):
            shutil.copy(file, directory)
        (directory / "upstream-password").write_text(f"{PASSWORD}\n")
        # A separate address, so that its port may be the one that the example names.
        listener = "127.9.8.7:5673" if ":5673" in rules else "127.0.0.1:0"
        settings = (
            f'listen = [{{address = "{listener}"}}]\nupstream = {{address = "127.0.0.1:{rabbitmq.port}"}}\n'
            f'control = {{path = "control"}}\nlimits = {{drain_timeout = 1}}\n'
        )
        config = directory / "amqproxy.toml"
        config.write_text(settings + rules)
        self.proxy = _Listening(
            directory / "proxy.log", *command(), "run", "--config", str(config), "--print", "--json"
        )
        stack.callback(self.proxy.kill)
        self.behind = self._open("127.0.0.1", rabbitmq.port).channel()
        """A channel of the broker's, past the proxy."""

    def _open(self, host: str, port: int, user: str = "guest", **options: Any) -> BlockingConnection:
        password = "guest" if user == "guest" else PASSWORD
        credentials = pika.PlainCredentials(user, password)
        options = {"socket_timeout": DEADLINE, "credentials": credentials} | options
        connection = BlockingConnection(pika.ConnectionParameters(host, port, **options))

        def close() -> None:
            with suppress(pika.exceptions.AMQPError):
                connection.close()

        self._stack.callback(close)
        return connection

    def connection(self, user: str = "guest", **options: Any) -> BlockingConnection:
        """Of a client's, through the proxy."""
        return self._open(self.proxy.host, self.proxy.port, user, **options)

    def channel(self, user: str = "guest", **options: Any) -> BlockingChannel:
        return self.connection(user, **options).channel()

    def exchange(self, name: str, kind: str = "fanout", queue: bool = True) -> str:
        """An exchange behind the proxy, for as long as the example runs; a queue that gets all that it gets."""
        self.behind.exchange_declare(name, kind)
        self._stack.callback(lambda: self.behind.exchange_delete(name))
        if not queue:
            return ""
        found: str = self.behind.queue_declare("", exclusive=True).method.queue
        self.behind.queue_bind(found, name, "#")
        return found

    def queue(self, name: str) -> str:
        """A queue behind the proxy that everybody may use, for as long as the example runs."""
        self.behind.queue_declare(name)
        self._stack.callback(lambda: self.behind.queue_delete(name))
        return name

    def got(self, queue: str) -> tuple[Any, Any, bytes]:
        """The next message of a queue behind the proxy."""

        def get() -> Any:
            found = self.behind.basic_get(queue, auto_ack=True)
            return found if found[0] else None

        return until(get, f"a message in {queue}")  # type: ignore[no-any-return]

    def count(self, queue: str) -> int:
        return self.behind.queue_declare(queue, passive=True).method.message_count  # type: ignore[no-any-return]

    def ask(self, request: str, **keys: Any) -> dict[str, Any]:
        with ControlClient(self._socket) as asked:
            return asked.ask(request, **keys)

    def hits(self, rule: str, of: str = "hits") -> int:
        return {each["name"]: each[of] for each in self.ask("rules")["rules"]}[rule]  # type: ignore[no-any-return]


class _Listening(Program):
    """At any address."""

    def _listening(self) -> int:
        if self.process.poll() is not None:
            raise RuntimeError(f"amqproxy ended with {self.process.returncode}\n{self.log}")
        found = LISTENING.search(self.log)
        self.host = found[1] if found else ""
        return int(found[2]) if found else 0


def refused(code: int, text: str = "") -> Any:
    return pytest.raises(pika.exceptions.ChannelClosedByBroker, match=rf"\({code}, .*{text}")


def later(connection: BlockingConnection, condition: Callable[[], Any], what: str) -> None:
    """Wait for something while the client listens."""

    def check() -> Any:
        connection.process_data_events(0.05)
        return condition()

    until(check, what)


# --- one for each example, named for its first rule


def who_may_do_what(example: Example) -> None:
    queue = example.exchange("orders.eu")
    example.exchange("other", queue=False)
    example.queue("orders.q")
    connection = example.connection("orders-1")
    channel = connection.channel()
    channel.basic_publish("orders.eu", "order.new", b"1")
    assert example.got(queue)[2] == b"1"
    assert channel.basic_get("orders.q") == (None, None, None)
    for denied in (
        lambda on: on.basic_get("amq.private"),
        lambda on: on.queue_declare("orders.q"),
        lambda on: on.exchange_bind("other", "secret"),
    ):
        with refused(403, "by rule 'who may do what, line"):
            denied(connection.channel())
    with refused(403):
        on = connection.channel()
        on.confirm_delivery()
        on.basic_publish("other", "order.new", b"2")
    with refused(403):  # it is not logged in
        example.channel("ops").queue_declare("ops", exclusive=True)


def one_publish_in_a_hundred_is_nacked(example: Example) -> None:
    queue = example.exchange("orders")
    channel = example.channel()
    channel.confirm_delivery()
    nacked = 0
    for _ in range(1500):
        try:
            channel.basic_publish("orders", "", b"x")
        except pika.exceptions.NackError:
            nacked += 1
    assert 1 <= nacked <= 60
    assert example.count(queue) == 1500 - nacked


def the_way_to_the_broker_is_long_today(example: Example) -> None:
    channel = example.channel("reports")
    began = time.monotonic()
    channel.queue_declare("", exclusive=True)
    assert 0.1 <= time.monotonic() - began < 3
    channel = example.channel()
    times = []
    for _ in range(10):
        began = time.monotonic()
        queue = channel.queue_declare("", exclusive=True).method.queue
        times.append(time.monotonic() - began)
    assert min(times) < 0.1, "that is not the way of others"
    got: list[bytes] = []
    for _ in range(120):
        channel.basic_publish("", queue, b"x")

    def take(_: Any, method: Any, __: Any, body: bytes) -> None:
        got.append(body)
        channel.basic_ack(method.delivery_tag)

    channel.basic_qos(prefetch_count=1)  # so that they come one by one
    channel.basic_consume(queue, take)
    later(channel.connection, lambda: len(got) >= 99, "deliveries")
    channel.connection.process_data_events(0.3)
    assert len(got) == 99, "and then the broker is silent"
    example.proxy.kill()


def the_next_five_publishes_come_back(example: Example) -> None:
    queue = example.exchange("orders")
    channel = example.channel()
    returned: list[int] = []
    channel.add_on_return_callback(lambda _, method, *__: returned.append(method.reply_code))
    for _ in range(7):
        channel.basic_publish("orders", "", b"x", mandatory=True)
    later(channel.connection, lambda: len(returned) == 5, "five returns")
    until(lambda: example.count(queue) == 2, "the other two")
    assert returned == [312] * 5
    with refused(406, "inequivalent arg 'durable' for queue 'orders'"):
        example.channel().queue_declare("orders")
    own = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(4):
        channel.basic_publish("", own, b"x")
    for _ in range(4):
        channel.basic_ack(channel.basic_get(own)[0].delivery_tag)
    channel.close()
    channel = channel.connection.channel()
    assert channel.queue_declare(own, passive=True).method.message_count == 1, "the third ack was lost"


def every_refund_is_looked_at(example: Example) -> None:
    queue = example.exchange("refunds-in", "topic")
    channel = example.channel()
    channel.basic_publish("refunds-in", "refunds.1", b"17")
    channel.basic_publish("refunds-in", "others", b"18")
    [one] = until(lambda: example.ask("held")["held"], "it to be held")
    assert (one["rule"], one["body"], one["on_timeout"]) == ("every refund is looked at", "17", "refuse")
    example.ask("release", session=one["session"], number=one["number"], edit={"body": "16"})
    assert [example.got(queue)[2] for _ in range(2)] == [b"16", b"18"]
    debugged = example.channel(client_properties={"connection_name": "debugging"})
    with ThreadPoolExecutor(1) as pool:

        def step() -> None:
            [one] = until(lambda: example.ask("held")["held"], "it to be held")
            example.ask("release", session=one["session"], number=one["number"])

        stepped = pool.submit(step)
        debugged.queue_declare("", exclusive=True)
        stepped.result(60)


def a_thousand_a_second_for_each_user(example: Example) -> None:
    connections = [example.connection(), example.connection()]
    channels = [connection.channel() for connection in connections]
    began = time.monotonic()
    for _ in range(2800):
        for channel in channels:
            channel.basic_publish("amq.fanout", "", b"x")
    for channel in channels:
        channel.queue_declare("", exclusive=True)
    assert 0.5 <= time.monotonic() - began < 20


def uploads_go_slowly_and_their_senders_know_it(example: Example) -> None:
    queue = example.exchange("uploads")
    connection = example.connection()
    received: list[str] = []
    connection.add_on_connection_blocked_callback(lambda *_: received.append("blocked"))
    channel = connection.channel()
    began = time.monotonic()
    for _ in range(5):
        channel.basic_publish("uploads", "", bytes(1_000_000))
    later(connection, lambda: received, "to be blocked")
    until(lambda: example.count(queue) == 5, "all to come")
    assert 0.8 <= time.monotonic() - began < 20


def ten_new_connections_a_second_from_one_address(example: Example) -> None:
    def many() -> None:
        for _ in range(40):
            example.connection()

    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"530.*too many connections, too fast"):
        many()


def fifty_connections_for_each_user(example: Example) -> None:
    connection = example.connection()
    channels = [connection.channel() for _ in range(10)]
    with refused(506):
        connection.channel()
    example.queue("orders.q")
    channels[0].basic_consume("orders.q", lambda *_: None)
    with refused(506):
        channels[1].basic_consume("orders.q", lambda *_: None)
    channels[0].close()
    channels[2].basic_consume("orders.q", lambda *_: None)
    connection.channel()


def at_most_a_hundred_messages_on_their_way_to_a_consumer(example: Example) -> None:
    channel = example.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(150):
        channel.basic_publish("", queue, b"x")
    tags: list[int] = []
    channel.basic_consume(queue, lambda _, method, *__: tags.append(method.delivery_tag))
    later(channel.connection, lambda: len(tags) >= 100, "a hundred")
    channel.connection.process_data_events(0.2)
    assert len(tags) == 100
    example.queue("reports")
    with refused(406):
        example.channel().basic_consume("reports", lambda *_: None)
    channel = example.channel()
    channel.basic_qos(prefetch_count=20)
    channel.basic_consume("reports", lambda *_: None)


def at_most_a_thousand_unacknowledged_messages_on_a_channel(example: Example) -> None:
    channel = example.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    for _ in range(1100):
        channel.basic_publish("", queue, b"x")
    tags: list[int] = []
    channel.basic_consume(queue, lambda _, method, *__: tags.append(method.delivery_tag))
    later(channel.connection, lambda: len(tags) >= 1000, "a thousand")
    channel.connection.process_data_events(0.2)
    assert len(tags) == 1000
    channel.basic_ack(tags[99], multiple=True)
    later(channel.connection, lambda: len(tags) == 1100, "the others")


def nothing_above_a_mebibyte_to_orders(example: Example) -> None:
    queue = example.exchange("orders")
    channel = example.channel()
    channel.confirm_delivery()
    channel.basic_publish("orders", "", bytes(1024 * 1024))
    assert len(example.got(queue)[2]) == 1024 * 1024
    with refused(406, "message size 1048577 is larger than configured max size 1048576"):
        channel.basic_publish("orders", "", bytes(1024 * 1024 + 1))


def who_deletes_queues(example: Example) -> None:
    example.exchange("orders", queue=False)
    channel = example.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.queue_delete(queue)
    channel.basic_publish("orders", "", b'{"id": "a7", "total": 10001}')
    channel.basic_publish("orders", "", b'{"id": "a8", "total": 9999}')
    channel.queue_declare("", exclusive=True)
    until(lambda: "large orders: a7 for 10001, 28 bytes" in example.proxy.log, "the line of the log")
    assert f"guest of 127.0.0.1 sends queue.delete {queue} in vhost /" in example.proxy.log
    assert "a8" not in example.proxy.log


def a_tenth_of_the_orders_for_the_next_release(example: Example) -> None:
    queue, shadow = example.exchange("orders"), example.exchange("orders.shadow")
    audit = example.exchange("audit", "topic")
    channel = example.channel()
    channel.confirm_delivery()
    for number in range(300):
        channel.basic_publish("orders", "", str(number).encode(), pika.BasicProperties(headers={"a": 1}))
    assert example.count(queue) == 300
    channel.basic_publish("amq.topic", "payments.new", b"17", pika.BasicProperties(reply_to="me"))
    method, properties, body = example.got(audit)
    assert (method.routing_key, body, properties.reply_to) == ("/.payments.new", b"17", None)
    assert 3 <= example.count(shadow) <= 90
    assert example.got(shadow)[1].headers == {"a": 1, "mirrored-from": "orders", "mirrored-by": "guest"}


def personal_data(example: Example) -> None:
    queue = example.exchange("customers")
    channel = example.channel()
    channel.confirm_delivery()
    headers = {"authorization": "a s3cret", "x-user-name": "a s3cret", "other": "shown"}
    properties = pika.BasicProperties(headers=headers, user_id="guest", app_id="shown, too")
    channel.basic_publish("customers", "a-s3cret-key", b'{"card": "a s3cret"}', properties)
    arguments = {"x-my-key": "a s3cret", "token": "a s3cret", "x-max-length": 5}
    channel.queue_declare("", exclusive=True, arguments=arguments)
    method, got, body = example.got(queue)
    assert (method.routing_key, got.headers, got.user_id) == ("a-s3cret-key", headers, "guest")
    assert body == b'{"card": "a s3cret"}', "on the wire nothing changes"
    printed = until(lambda: "queue.declare-ok" in example.proxy.log and example.proxy.log, "it to be printed")
    assert "shown, too" in printed
    assert '"authorization":"***"' in printed
    assert '"routing_key":"***"' in printed
    assert '"token":"***"' in printed
    assert "s3cret" not in printed


def queues_are_not_made_by_hand(example: Example) -> None:
    with refused(403, "queue.declare of queue 'q' in vhost '/' refused for user 'guest' by rule 'queues are"):
        example.channel().queue_declare("q", exclusive=True)
    example.channel("deployment").queue_declare("q", exclusive=True)


def maintenance(example: Example) -> None:
    example.exchange("orders-2", queue=False)
    channel = example.channel()
    channel.confirm_delivery()
    with pytest.raises(pika.exceptions.NackError):
        channel.basic_publish("orders-2", "", b"x")
    with pytest.raises(pika.exceptions.UnroutableError) as unroutable:
        channel.basic_publish("amq.topic", "a.discontinued.b", b"x", mandatory=True)
    [message] = unroutable.value.messages
    assert (message.method.reply_code, message.method.reply_text) == (313, "a.discontinued.b is no longer for sale")
    with pytest.raises(pika.exceptions.ProbableAccessDeniedError, match=r"530.*vhost internal is not for 127\.0\.0\.1"):
        example.connection(virtual_host="internal")
    old = example.connection(client_properties={"product": "legacy-app"})
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker, match=r"320.*legacy-app is not served any more"):
        old.channel()


def orders_has_moved(example: Example) -> None:
    moved, events = example.exchange("guest:orders.v2"), example.exchange("guest:events", "topic")
    channel = example.channel()
    channel.basic_publish("orders", "", b"1")
    assert example.got(moved)[2] == b"1"
    channel.basic_publish("events", "deploy.eu", b"2")
    assert example.got(events)[0].routing_key == "eu.deploy"
    assert channel.queue_declare("q_work", auto_delete=True).method.queue == "q_work"
    channel.queue_bind("q_work", "orders")
    example.behind.queue_declare("guest:work", passive=True)
    channel.basic_publish("", "q_work", b"3")
    channel.basic_publish("orders", "", b"4")
    got: list[tuple[str, str, str, bytes]] = []

    def take(_: Any, method: Any, __: Any, body: bytes) -> None:
        got.append((method.consumer_tag, method.exchange, method.routing_key, body))
        channel.basic_ack(method.delivery_tag)

    assert channel.basic_consume("q_work", take, consumer_tag="me") == "me"
    later(channel.connection, lambda: len(got) == 2, "both")
    assert got == [("me", "", "q_work", b"3"), ("me", "orders", "", b"4")]
    channel.basic_cancel("me")
    own = channel.queue_declare("", exclusive=True).method.queue
    assert own.startswith("amq.gen-")
    with refused(404, "no queue 'q_none' in vhost '/'"):
        channel.queue_declare("q_none", passive=True)
    with refused(403, "by rule 'nor at the broker's own exchanges, line 1'"):
        example.channel().queue_bind(own, "amq.topic")


def the_broker_knows_one_user(example: Example) -> None:
    credentials = pika.PlainCredentials("staging-7", "whatever")
    named = {"connection_name": "mine"}
    connection = example.connection(credentials=credentials, client_properties=named)
    assert connection._impl.params.channel_max <= 64
    assert connection._impl.params.frame_max <= 65536
    connection.channel().queue_declare("", exclusive=True)
    words = ["user", "vhost", "client_properties", "channel_max", "frame_max", "timeout"]
    [mine] = [line for line in example.rabbitmq.ctl("list_connections", *words).splitlines() if "mine" in line]
    assert mine.startswith("proxy\tstaging\t")
    assert '{"via","amqproxy"}' in mine
    assert '{"peer","127.' in mine
    assert mine.endswith("\t64\t65536\t20")
    named = {"connection_name": "never beats"}
    _ = example.connection(credentials=credentials, client_properties=named, heartbeat=0)
    lines = example.rabbitmq.ctl("list_connections", *words).splitlines()
    assert [line.endswith("\t20") for line in lines if "never beats" in line] == [True]


def queues_are_replicated_and_nothing_stays_for_ever(example: Example) -> None:
    channel = example.channel()
    arguments = {"x-max-priority": 3, "x-message-ttl": 10**9}
    channel.queue_declare("orders.new", arguments=arguments)
    is_so = {"x-queue-type": "quorum", "x-dead-letter-exchange": "dead", "x-message-ttl": 604800000}
    example.behind.queue_declare("orders.new", durable=True, arguments=is_so)
    headers = {"x-corr": "7", "x-internal-a": 1}
    properties = pika.BasicProperties(headers=headers, expiration="99999999", user_id="guest")
    channel.confirm_delivery()
    channel.basic_publish("", "orders.new", b'{"order": {"id": 5}}', properties)
    _, got, _ = example.got("orders.new")
    traced = got.headers.pop("traceparent")
    assert re.fullmatch(r"00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}", traced)
    for added in ("tracestate", "x-delivery-count"):  # the latter by the quorum queue
        got.headers.pop(added, None)
    assert got.headers == {"correlation": "7", "published-by": "guest", "order": 5}
    assert (got.delivery_mode, got.expiration, got.user_id) == (2, "3600000", None)
    assert got.app_id.startswith("Pika")
    channel.basic_qos(prefetch_count=0)
    for _ in range(150):
        channel.basic_publish("", "orders.new", b"{}")
    tags: list[int] = []
    channel.basic_consume("orders.new", lambda _, method, *__: tags.append(method.delivery_tag))
    later(channel.connection, lambda: len(tags) >= 100, "a hundred")
    channel.connection.process_data_events(0.2)
    assert len(tags) == 100
    channel.queue_delete("orders.new")


def no_card_numbers(example: Example) -> None:
    payments, shouting = example.exchange("payments"), example.exchange("shouting")
    channel = example.channel()
    channel.confirm_delivery()
    body = {"card": {"cvv": 123, "number": "1234567812345678"}, "link": "http://x"}
    channel.basic_publish("payments", "", json.dumps(body).encode())
    expected = {"card": {"number": "1234********5678"}, "link": "https://x", "checked": True}
    assert json.loads(example.got(payments)[2]) == expected
    channel.basic_publish("payments", "", b"no json 1234567812345678")
    assert example.got(payments)[2] == b"no json 1234********5678"
    channel.basic_publish("shouting", "", b"quiet")
    assert example.got(shouting)[2] == b"QUIET"


def orders(example: Example) -> None:
    connection = example.connection()
    channel, other = connection.channel(), connection.channel()
    queue = example.exchange("scripted")
    channel.confirm_delivery()
    for number in (1, 2):
        channel.basic_publish("scripted", "", b"x", pika.BasicProperties(headers={"a": "b"}))
        assert example.got(queue)[1].headers == {"a": "b", "number": number, "from": "127.0.0.1"}
    channel.basic_publish("scripted", "", b"")
    with refused(406, "an order has at most 10000 bytes, and this one 10001"):
        channel.basic_publish("scripted", "", bytes(10_001))
    assert example.count(queue) == 0
    for number in range(10):
        other.queue_declare(f"scripted-{number}", exclusive=True)
    with refused(403, "no more than ten queues"):
        other.queue_declare("scripted-10", exclusive=True)
    assert connection.channel().is_open


def what_the_auditors_ask_for(example: Example) -> None:
    queue = example.exchange("payments-eu")
    channel = example.channel()
    channel.basic_publish("payments-eu", "", b"x")
    channel.basic_publish("amq.fanout", "", b"x")
    assert example.got(queue)[2] == b"x"
    assert example.hits("what the auditors ask for") == 1


def nothing_large_at_night(example: Example) -> None:
    channel = example.channel()
    channel.confirm_delivery()
    channel.basic_publish("amq.fanout", "", b"x", pika.BasicProperties(headers={"tier": "test"}))
    channel.basic_publish("amq.fanout", "", b"x")
    assert example.hits("test traffic", "shadow_hits") == 1
    assert example.hits("test traffic") == 0
    hour = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)).hour
    if 6 <= hour < 22:
        channel.basic_publish("amq.fanout", "", bytes(1024 * 1024))
    else:
        with refused(403):
            channel.basic_publish("amq.fanout", "", bytes(1024 * 1024))


def gold_orders_from_the_warehouse(example: Example) -> None:
    channel = example.channel(client_properties={"product": "pika", "connection_name": "warehouse-1"})
    channel.confirm_delivery()
    properties = pika.BasicProperties(headers={"tier": "gold", "test": False})
    queue = example.exchange("orders.eu")
    for _ in range(100):
        channel.basic_publish("orders.eu", "order.eu.new", b'{"order": {"priority": 1}}', properties)
    assert example.count(queue) == 100
    assert example.hits("gold orders from the warehouse") == 0, "they do not come from there"


def operators_may_do_anything(example: Example) -> None:
    example.channel().queue_declare("", exclusive=True)
    assert example.hits("operators may do anything") == 0
    example.channel("ops-1").queue_declare("", exclusive=True)
    assert example.hits("operators may do anything") > 0


SCENARIOS: dict[str, Callable[[Example], None]] = {
    each.__name__: each
    for each in (
        who_may_do_what,
        one_publish_in_a_hundred_is_nacked,
        the_way_to_the_broker_is_long_today,
        the_next_five_publishes_come_back,
        every_refund_is_looked_at,
        a_thousand_a_second_for_each_user,
        uploads_go_slowly_and_their_senders_know_it,
        ten_new_connections_a_second_from_one_address,
        fifty_connections_for_each_user,
        at_most_a_hundred_messages_on_their_way_to_a_consumer,
        at_most_a_thousand_unacknowledged_messages_on_a_channel,
        nothing_above_a_mebibyte_to_orders,
        who_deletes_queues,
        a_tenth_of_the_orders_for_the_next_release,
        personal_data,
        queues_are_not_made_by_hand,
        maintenance,
        orders_has_moved,
        the_broker_knows_one_user,
        queues_are_replicated_and_nothing_stays_for_ever,
        no_card_numbers,
        orders,
        what_the_auditors_ask_for,
        nothing_large_at_night,
        gold_orders_from_the_warehouse,
        operators_may_do_anything,
    )
}


def _scenario(example: str) -> str:
    """The name of the function that plays an example: its first rule's, in words that Python knows."""
    return "_".join(re.findall(r"[a-z]+", tomllib.loads(example)["rules"][0]["name"].lower()))


@pytest.mark.parametrize("rules", EXAMPLES)
def test_an_example_does_what_its_page_promises(rules: str, inhabited: RabbitMQ, tmp_path: Path) -> None:
    with ExitStack() as stack:
        example = Example(tmp_path, rules, inhabited, stack)
        SCENARIOS[_scenario(rules)](example)
        assert "Traceback" not in example.proxy.log
