"""Commands, changed on their way, and names that come back."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicConsume,
    BasicDeliver,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicReturn,
    ConnectionClose,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Field, Table
from amqproxy.rules.context import Client
from amqproxy.rules.rewriting.trace_context import is_valid
from amqproxy.rules.verdict import Close, Stage
from tests.rules.rewriting.rewrite_helpers import TENANT, evaluator_of, rewrite, to_broker, to_client
from tests.rules.scene import Shelf, decided, from_client, from_server, left, memory, passes, rule

# --- who and where


def test_credentials_come_from_a_file_and_are_never_shown() -> None:
    made = rewrite(
        'user = "proxy"\npassword_file = "upstream"', Shelf({"upstream": "s3cret\n"}), match={"user": "app-*"}
    )
    start = ConnectionStartOk(Table({"product": "pika"}), "PLAIN", b"\0app-1\0app-pw")
    client = Client(user="app-1")
    sent: Any = left(made, from_client(start, client=client)).method
    assert (sent.mechanism, sent.response) == ("PLAIN", b"\0proxy\0s3cret")
    assert "s3cret" not in repr(made) + msgspec.json.encode(made).decode() + str(made.__dict__)
    close = from_server(
        ConnectionClose(530, "NOT_ALLOWED - access to vhost '/' refused for user 'proxy'"), client=client
    )
    remembered = memory(made)
    left(made, from_client(start, client=client), remembered)
    restored = made.restore(close, remembered).command
    assert restored is not None
    assert restored.method.reply_text == "NOT_ALLOWED - access to vhost '/' refused for user 'app-1'"


@pytest.mark.parametrize(
    ("text", "start", "expected"),
    [
        ('password_env = "PW"', ConnectionStartOk(response=b"\0app\0x"), ("PLAIN", b"\0app\0v")),
        ('user.prefix = "t-"', ConnectionStartOk(response=b"\0app\0x"), ("PLAIN", b"\0t-app\0x")),
        ('user.names = {app = "proxy"}', ConnectionStartOk(response=b"\0app\0x"), ("PLAIN", b"\0proxy\0x")),
        ('user = "proxy"\npassword_env = "PW"', ConnectionStartOk(mechanism="EXTERNAL"), ("PLAIN", b"\0proxy\0v")),
        ('user = "proxy"\npassword_env = "PW"', ConnectionStartOk(response=b"odd"), ("PLAIN", b"\0proxy\0v")),
        ('password_env = "PW"', ConnectionStartOk(response=b"odd"), ("PLAIN", b"odd")),
    ],
)
def test_logins(text: str, start: ConnectionStartOk, expected: tuple[str, bytes]) -> None:
    made = rewrite(text, Shelf(variables={"PW": "v"}))
    sent: Any = left(made, from_client(start, client=Client())).method
    assert (sent.mechanism, sent.response) == expected


def test_a_new_secret_of_the_clients_is_not_the_brokers() -> None:
    made = rewrite('password_env = "PW"', Shelf(variables={"PW": "v"}))
    assert left(made, from_client(ConnectionUpdateSecret(b"client's", "r"))).method == ConnectionUpdateSecret(b"v", "r")
    assert "connection.update-secret" not in rewrite('user.prefix = "t-"').methods


@pytest.mark.parametrize(
    ("text", "shelf", "reason"),
    [
        ('password_file = "none"', Shelf(), "there is no none"),
        ('password_env = "NONE"', Shelf(), "there is no NONE"),
        ('password_file = "empty"', Shelf({"empty": "\n"}), "the password in empty is empty"),
    ],
)
def test_a_password_that_is_not_there_is_missed_when_the_config_is_loaded(text: str, shelf: Shelf, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        rewrite(text, shelf)


def test_a_password_that_was_not_read_is_missed_by_those_who_would_send_it() -> None:
    made = msgspec.convert({"action": "rewrite", "name": "r", "password_env": "PW"}, type(rule(TENANT)))
    with pytest.raises(ValueError, match="has not been read"):
        decided(made, from_client(ConnectionStartOk(response=b"\0a\0b")))


def test_the_proxy_announces_itself_and_the_real_client() -> None:
    made = rewrite(
        "client_properties.set = {via = 'amqproxy', peer = '{client.address}:{client.port}'}\n"
        "client_properties.default = {connection_name = '{client.address}'}\nclient_properties.remove = ['version']"
    )
    start = ConnectionStartOk(
        Table([Field("version", "S", "1"), Field("capabilities", "F", Table({"basic.nack": True}))])
    )
    sent: Any = left(made, from_client(start)).method
    assert dict(sent.client_properties) == {
        "capabilities": {"basic.nack": True},
        "connection_name": "10.0.0.7",
        "via": "amqproxy",
        "peer": "10.0.0.7:4711",
    }


def test_limits_are_offered_smaller_and_held_to() -> None:
    made = rewrite("tune = {channel_max = 8, frame_max = 4096, heartbeat = 10}")
    assert left(made, from_server(ConnectionTune(2047, 131_072, 60))).method == ConnectionTune(8, 4096, 10)
    assert passes(made, from_client(ConnectionTuneOk(8, 4096, 10)))
    assert left(made, from_client(ConnectionTuneOk(8, 4096, 600))).method == ConnectionTuneOk(8, 4096, 10)
    verdict = decided(made, from_client(ConnectionTuneOk(9, 4096, 10)))
    assert (verdict.command, verdict.is_final) == (None, True)
    text = "NOT_ALLOWED - negotiated channel_max = 9 is higher than the maximum allowed value (8)"
    assert verdict.close == Close(Scope.CONNECTION, 530, text)


@pytest.mark.parametrize("order", [1, -1], ids=["as written", "the other way round"])
def test_frames_raised_for_the_broker_are_not_held_against_the_client(order: int) -> None:
    made = [rewrite("tune.least_frame_max = 8192", name="raise"), rewrite("tune.frame_max = 4096", name="limit")]
    rules = evaluator_of(*made[::order])
    assert to_client(rules, ConnectionTune(2047, 131_072, 60)).method == ConnectionTune(2047, 4096, 60)
    assert to_broker(rules, ConnectionTuneOk(2047, 4096, 60)).method == ConnectionTuneOk(2047, 8192, 60)
    verdict = rules.evaluate(from_client(ConnectionTuneOk(2047, 8192, 60)))
    text = "NOT_ALLOWED - negotiated frame_max = 8192 is higher than the maximum allowed value (4096)"
    assert verdict.close == Close(Scope.CONNECTION, 530, text)


TO_DEFAULT = Table({"x-dead-letter-exchange": ""})
TO_QUEUE = Table({"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "q"})
ALTERNATE = Table({"alternate-exchange": ""})


@pytest.mark.parametrize(
    ("text", "method", "is_refused"),
    [
        ('queue.prefix = "{user}:"', QueueDeclare(queue="q", arguments=TO_DEFAULT), True),
        ('queue.prefix = "{user}:"', QueueDeclare(queue="q", arguments=TO_QUEUE), False),
        ('queue.prefix = "{user}:"', QueueDeclare(queue="q", passive=True, arguments=TO_DEFAULT), False),
        ('queue.suffix = "@{vhost}"', ExchangeDeclare(exchange="e", arguments=ALTERNATE), True),
        ('queue.prefix = "q_"', QueueDeclare(queue="q", arguments=TO_DEFAULT), False),
        ('exchange.prefix = "{user}:"', QueueDeclare(queue="q", arguments=TO_DEFAULT), False),
    ],
)
def test_where_clients_have_names_of_their_own_no_key_leads_elsewhere(
    text: str, method: Method, is_refused: bool
) -> None:
    verdict = decided(rewrite(text), from_client(method))
    assert (verdict.close is not None and verdict.close.code == 403) is is_refused
    assert (verdict.command is None) is is_refused


# --- the contents of commands


@pytest.mark.parametrize(
    ("text", "before", "after"),
    [
        (
            'arguments.set = {x-queue-type = "quorum"}\nfields.set = {durable = true}',
            QueueDeclare(queue="q"),
            QueueDeclare(queue="q", durable=True, arguments=Table({"x-queue-type": "quorum"})),
        ),
        (
            "arguments.at_most = {x-message-ttl = 60000}",
            QueueDeclare(arguments=Table({"x-message-ttl": 10**10})),
            QueueDeclare(arguments=Table([Field("x-message-ttl", "l", 60_000)])),
        ),
        (
            "arguments.default = {x-dead-letter-exchange = 'dlx'}",
            QueueDeclare(),
            QueueDeclare(arguments=Table({"x-dead-letter-exchange": "dlx"})),
        ),
        (
            "arguments.remove = ['x-max-*']",
            QueueDeclare(arguments=Table({"x-max-length": 1, "x-b": 2})),
            QueueDeclare(arguments=Table({"x-b": 2})),
        ),
        (
            "arguments.set = {x-priority = 5}",
            BasicConsume(queue="q"),
            BasicConsume(queue="q", arguments=Table({"x-priority": 5})),
        ),
        (
            "arguments.set = {x-match = 'any'}",
            QueueBind(queue="q"),
            QueueBind(queue="q", arguments=Table({"x-match": "any"})),
        ),
        ("fields.set = {mandatory = true}", BasicPublish(), BasicPublish(mandatory=True)),
        ("fields.at_most = {prefetch_count = 50}", BasicQos(), BasicQos(prefetch_count=50)),
        ("fields.set = {requeue = false}", BasicNack(1), BasicNack(1, requeue=False)),
    ],
)
def test_methods(text: str, before: Method, after: Method) -> None:
    assert left(rewrite(text), from_client(before)).method == after


def test_arguments_that_are_set_are_the_brokers_names_and_stay() -> None:
    made = rewrite('exchange.prefix = "p."\narguments.default = {x-dead-letter-exchange = "dlx"}')
    assert left(made, from_client(QueueDeclare(queue="q"))).method.arguments == {"x-dead-letter-exchange": "dlx"}


def test_properties_headers_and_body() -> None:
    made = rewrite(
        """
        properties.set = {content_type = "application/json", app_id = "{user}"}
        properties.remove = ["user_id"]
        headers.set = {from = "{client.address}", kind = "{properties.type}"}
        headers.rename = {old = "new"}
        headers.remove = ["x-*"]
        body.json_patch = [{op = "add", path = "/seen", value = true}]
        """
    )
    assert made.needs is Stage.BODY
    old = Properties(user_id="u", type="t", headers=Table([Field("old", "B", 1), Field("x-a", "S", "")]))
    context = from_client(BasicPublish(exchange="e"), old, b'{"a":1}')
    command = left(made, context)
    assert command.method is context.command.method
    assert command.body == b'{"a":1,"seen":true}'
    assert command.properties == Properties(
        content_type="application/json",
        app_id="guest",
        type="t",
        headers=Table([Field("new", "B", 1), Field("from", "S", "10.0.0.7"), Field("kind", "S", "t")]),
    )


@pytest.mark.parametrize("method", [BasicDeliver("t", 1), BasicGetOk(1), BasicReturn()])
def test_messages_for_the_client_too(method: Method) -> None:
    made = rewrite('headers.set = {a = 1}\nbody.replace = [{text = "a", with = "b"}]')
    command = left(made, from_server(method, body=b"abc"))
    assert (command.properties, command.body) == (Properties(headers=Table({"a": 1})), b"bbc")


def test_a_body_may_still_be_on_its_way_when_only_its_header_changes() -> None:
    made = rewrite("headers.set = {a = 1}")
    assert made.needs is Stage.HEADER
    command = left(made, from_client(BasicPublish(), body=b"12345", stage=Stage.HEADER))
    assert (command.properties.headers, command.body_size, command.is_complete) == ({"a": 1}, 5, False)


def test_a_trace_begins_with_a_publish() -> None:
    made = rewrite("trace_context = true")
    assert made.methods == {"basic.publish"}
    command = left(made, from_client(BasicPublish(), random=random.Random(3).random))
    assert command.properties.headers is not None
    assert is_valid(command.properties.headers["traceparent"])
    assert passes(made, from_client(BasicPublish(), command.properties))


def test_a_function_is_given_the_body() -> None:
    made = rewrite(
        'body.call = "own.py:f"', Shelf({"own.py": "def f(body, context):\n  return body + context.rule.encode()"})
    )
    assert left(made, from_client(BasicPublish(), body=b"x")).body == b"xr"


def test_what_is_not_there_is_not_changed() -> None:
    made = rewrite("headers.set = {a = 1}\nqueue.prefix = 'p.'")
    assert passes(made, from_client(QueueDeclare()))
    assert passes(
        rewrite("headers.remove = ['a']"), from_client(BasicPublish(), Properties(headers=Table({"b": 1})), b"x")
    )
    assert passes(rewrite("body.replace = [{text = 'a', with = 'b'}]"), from_client(BasicPublish(), body=b"x"))


# --- what it is about


@pytest.mark.parametrize(
    ("text", "methods"),
    [
        ("vhost = 'v'", {"connection.open"}),
        ("user = 'u'", {"connection.start-ok"}),
        ("tune.heartbeat = 5", {"connection.tune", "connection.tune-ok"}),
        ("consumer_tag.prefix = 'p'", {"basic.consume"}),
        ("body.set = ''", {"basic.publish", "basic.deliver", "basic.get-ok", "basic.return"}),
        ("fields.set = {no_ack = true}", {"basic.consume", "basic.get"}),
        (
            "arguments.set = {a = 1}",
            {name for name, method in BY_NAME.items() if "arguments" in method.__struct_fields__},
        ),
        (
            "exchange.prefix = 'p'",
            {
                "exchange.declare",
                "exchange.delete",
                "exchange.bind",
                "exchange.unbind",
                "queue.bind",
                "queue.unbind",
                "queue.declare",
                "basic.publish",
            },
        ),
    ],
)
def test_the_methods_that_it_is_about(text: str, methods: set[str]) -> None:
    assert rewrite(text).methods == methods


@pytest.mark.parametrize(
    ("text", "needs", "restoring_needs", "is_constant"),
    [
        ("exchange.prefix = 'p'", Stage.METHOD, Stage.HEADER, True),
        ("exchange.prefix = 'p'\nfollows = []", Stage.METHOD, Stage.METHOD, True),
        ("exchange.prefix = 'p'\nboth_ways = false", Stage.METHOD, Stage.METHOD, True),
        ("queue.prefix = 'p'", Stage.HEADER, Stage.HEADER, False),
        ("queue.prefix = 'p'\nfollows = ['arguments', 'texts']", Stage.METHOD, Stage.METHOD, True),
        ("exchange = 'x'", Stage.METHOD, Stage.HEADER, False),
        ("exchange = 'x'\nmatch.exchange = 'y'", Stage.METHOD, Stage.HEADER, True),
        ("exchange.strip_prefix = 'p'", Stage.METHOD, Stage.HEADER, False),
        ("arguments.set = {a = '{user}'}", Stage.METHOD, Stage.METHOD, True),
        ("arguments.set = {a = '{time}'}", Stage.METHOD, Stage.METHOD, False),
        ("trace_context = true", Stage.HEADER, Stage.METHOD, False),
        ("headers.set = {a = '{json.b}'}", Stage.BODY, Stage.METHOD, False),
    ],
)
def test_how_much_it_needs(text: str, needs: Stage, restoring_needs: Stage, is_constant: bool) -> None:
    made = rewrite(text)
    assert (made.needs, made.restoring_needs, made.is_constant) == (needs, restoring_needs, is_constant)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "changes nothing"),
        ("password_file = 'a'\npassword_env = 'b'", "name one"),
        ("properties.set = {ttl = 1}", "`ttl` is not a property"),
        ("fields.set = {delivery_tag = 1}", "not an editable field"),
        ("tune.frame_max = 100", ">= 4096"),
        ("match.method = 'basic.ack'\nexchange.prefix = 'p'", "changes nothing in basic.ack"),
        ("match.method = 'basic.deliver'\nexchange.prefix = 'p'", "changes nothing in basic.deliver"),
        ("exchnage = 'x'", "unknown field `exchnage`"),
        ("exchange.prefx = 'x'", r"unknown field `prefx` - at `\$.exchange`"),
        ("follows = ['everything']", "Invalid enum value"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(text: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        rewrite(text)
