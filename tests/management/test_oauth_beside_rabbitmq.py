"""The answers of our management API to OAuth 2 tokens beside those of RabbitMQ 4.3's, with the keys of one issuer."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, NamedTuple

import pika
import pika.exceptions
import pytest

from tests.management.api import Answer, Api, definitions
from tests.management.likeness import differences
from tests.management.oauth import (
    ADMINISTRATOR,
    CORPUS,
    TokenRequest,
    key_service,
    own_settings,
    rabbitmq_settings,
    token,
)
from tests.management.own_api import own
from tests.real.ports import free_port
from tests.real.rabbitmq import running
from tests.real.rabbitmq_installation import installation
from tests.tokens.issuer import Issuer

pytestmark = [pytest.mark.real, pytest.mark.once]

PLUGINS = ("rabbitmq_management", "rabbitmq_auth_backend_oauth2")


class Pair(NamedTuple):
    theirs: Api
    ours: Api
    issuer: Issuer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    issuer = Issuer()
    with ExitStack() as stack:
        keys = stack.enter_context(key_service(tmp_path_factory.mktemp("keys"), issuer))
        port = free_port()
        settings = {
            "management.tcp.port": port,
            "management.tcp.ip": "127.0.0.1",
            "collect_statistics_interval": 1000,
            "listeners.ssl": "none",
            **rabbitmq_settings(keys),
        }
        node = stack.enter_context(running(tmp_path_factory.mktemp("theirs"), installation("4.3"), settings, PLUGINS))
        theirs = Api(port, node.port)
        assert theirs.ask("POST", "definitions", definitions("4.3.6")).status == 204
        monkeypatch = stack.enter_context(pytest.MonkeyPatch.context())
        for name, value in own_settings(keys).items():
            text = value if isinstance(value, str) else json.dumps(value)
            monkeypatch.setenv(f"AMQPROXY_BROKER__TOKENS__{name.upper()}", text)
        ours = stack.enter_context(own(tmp_path_factory.mktemp("ours"), "4.3", monkeypatch))
        yield Pair(theirs, ours, issuer)


def ask(api: Api, method: str, path: str, body: object, sent: str) -> Answer:
    return api.ask(method, path, body, user=None, headers={"Authorization": f"Bearer {sent}"})


@pytest.mark.parametrize("asked", CORPUS, ids=str)
def test_a_token_has_the_rights_that_it_has_at_rabbitmq(pair: Pair, asked: TokenRequest) -> None:
    for method, path, body in asked.asked:
        sent = asked.token(pair.issuer)
        theirs, ours = (ask(api, method, path, body, sent) for api in (pair.theirs, pair.ours))
        found = differences(theirs, ours, path)
        assert not found, (path, "\n".join(found))


@pytest.mark.parametrize("user", ["tina", "someone", ""])
@pytest.mark.parametrize("is_good", [True, False])
def test_a_password_may_be_a_token(pair: Pair, user: str, is_good: bool) -> None:
    password = token(pair.issuer, *ADMINISTRATOR, **({} if is_good else {"exp": 1}))
    theirs, ours = (api.ask("GET", "whoami", user=user, password=password) for api in (pair.theirs, pair.ours))
    assert theirs.status == ours.status == (200 if is_good else 401)
    assert theirs.json == ours.json


@pytest.mark.parametrize("form", ["username=x&password={token}", "username=guest&password=guest"])
def test_a_form_may_have_a_token(pair: Pair, form: str) -> None:
    body = form.format(token=token(pair.issuer, *ADMINISTRATOR)).encode()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}
    theirs, ours = (api.ask("POST", "login", body, user=None, headers=kind) for api in (pair.theirs, pair.ours))
    assert theirs.status == ours.status == 200
    assert theirs.json == ours.json


def outcome(api: Api, user: str, password: str) -> str:
    """Log in and open a channel; return the outcome, or the text of the refusal."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", api.amqp_port, credentials=pika.PlainCredentials(user, password), heartbeat=0
    )
    try:
        connection = pika.BlockingConnection(parameters)
    except pika.exceptions.AMQPConnectionError as error:
        return str(error)
    try:
        connection.channel().queue_declare("q1", passive=True)
    except pika.exceptions.AMQPChannelError as error:
        return str(error)
    finally:
        connection.close()
    return "open"


def test_other_users_log_in_as_before(pair: Pair) -> None:
    assert pair.theirs.get("whoami") == pair.ours.get("whoami")
    assert pair.theirs.ask("GET", "whoami", password="wrong").status == 401
    assert pair.ours.ask("GET", "whoami", password="wrong").status == 401


@pytest.mark.parametrize("asked", [each for each in CORPUS if each.amqp], ids=str)
def test_a_client_may_log_in_with_the_same_tokens(pair: Pair, asked: TokenRequest) -> None:
    theirs, ours = (outcome(api, "zed", asked.token(pair.issuer)) for api in (pair.theirs, pair.ours))
    assert theirs == ours


def renewed(api: Api, first: str, second: str) -> str:
    """Renew a connection's secret; return the outcome, or the code that ends the connection."""
    parameters = pika.ConnectionParameters(
        "127.0.0.1", api.amqp_port, credentials=pika.PlainCredentials("", first), heartbeat=0
    )
    connection = pika.BlockingConnection(parameters)
    try:
        connection.update_secret(second, "renewal")
        channel = connection.channel()
        channel.queue_declare("renewed")
    except pika.exceptions.ConnectionClosedByBroker as error:
        return f"closed with {error.reply_code}"
    except pika.exceptions.ChannelClosedByBroker as error:
        return error.reply_text
    finally:
        if connection.is_open:
            connection.close()
    return "open"


@pytest.mark.parametrize(
    ("scopes", "claims"),
    [
        (ADMINISTRATOR, {}),
        (ADMINISTRATOR, {"user_name": "zoe"}),
        (ADMINISTRATOR, {"exp": 1}),
        (("rabbitmq.read:%2F/*",), {}),
        (None, {}),
    ],
    ids=["same", "other user", "expired", "fewer rights", "garbage"],
)
def test_a_client_may_renew_its_token(pair: Pair, scopes: tuple[str, ...] | None, claims: dict[str, Any]) -> None:
    first = token(pair.issuer, *ADMINISTRATOR)
    second = "garbage" if scopes is None else token(pair.issuer, *scopes, **claims)
    theirs, ours = (renewed(api, first, second) for api in (pair.theirs, pair.ours))
    assert theirs == ours


def test_a_connection_ends_with_its_token(pair: Pair) -> None:
    ends: list[str] = []
    for api in (pair.theirs, pair.ours):
        short = token(pair.issuer, *ADMINISTRATOR, exp=int(time.time()) + 3)
        credentials = pika.PlainCredentials("", short)
        parameters = pika.ConnectionParameters("127.0.0.1", api.amqp_port, credentials=credentials, heartbeat=0)
        connection = pika.BlockingConnection(parameters)
        with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
            connection.process_data_events(time_limit=60)
        ends.append(f"{closed.value.reply_code} {closed.value.reply_text}")
    assert ends == ["320 CONNECTION_FORCED - credential expired"] * 2
