"""Facts about a broker, and logins to it."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
import trio.testing

from amqproxy.broker.access.token_user import TokenUser
from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.broker.server.token_logins import token_logins
from amqproxy.configuration.token_config import BrokerTokens
from amqproxy.control.changes.message_changes import Publish
from amqproxy.control.changes.topology_changes import DeclareQueue, PurgeQueue
from amqproxy.control.management.broker_management import BrokerManagement, ListenerFacts
from amqproxy.control.request import ChangeBroker, ListBrokerObjects, LogInToBroker
from amqproxy.control.request_error import RequestError
from tests.control.served import Serving
from tests.tokens.fixtures import issuer
from tests.tokens.issuer import Issuer

__all__ = ["issuer"]


def management() -> BrokerManagement:
    serving = Serving()
    listeners = [ListenerFacts("127.0.0.1", 5672, False)]
    return BrokerManagement(serving.broker, serving.served, listeners, started=1.0, time=lambda: 11.0)


def test_facts() -> None:
    facts = management().facts()
    assert (facts["version"], facts["node"], facts["uptime"]) == ("3.10.8", "amqproxy@localhost", 10.0)
    assert facts["listeners"] == [{"host": "127.0.0.1", "port": 5672, "tls": False}]
    assert facts["connections"] == 1
    assert {"direct", "topic"} <= set(facts["exchange_types"])
    assert facts["disk_free"] > 0
    assert facts["files"] > 0


async def test_a_login_shows_tags_and_virtual_hosts() -> None:
    found = await management().login(LogInToBroker(user="guest", password="guest", loopback=True, vhost="none"))
    assert found == {
        "name": "guest",
        "tags": ["administrator"],
        "vhosts": ["/"],
        "has_vhost": False,
        "is_internal": True,
    }


@pytest.mark.parametrize(
    "login",
    [
        LogInToBroker(user="guest", password="wrong", loopback=True),
        LogInToBroker(user="nobody", password="guest", loopback=True),
        LogInToBroker(user="guest", password="guest", loopback=False),
    ],
)
async def test_a_wrong_login_is_refused(login: LogInToBroker) -> None:
    with pytest.raises(RequestError) as refused:
        await management().login(login)
    assert refused.value.name == "refused"


async def test_a_token_is_taken_only_by_those_who_ask_with_it(issuer: Issuer, tmp_path: Path) -> None:
    """One who goes on by the name that was typed in must not get the rights of a user of that name."""
    serving = Serving()
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.key_set("rsa"))
    tokens = token_logins(BrokerTokens(keys=str(file)), serving.broker.profile)
    serving.broker.user_of_token = tokens.log_in
    managed = BrokerManagement(serving.broker, serving.served, tokens=tokens)
    token = issuer.token(aud="rabbitmq", scope="rabbitmq.tag:management rabbitmq.read:%2F/*")
    for keys in ({"takes_token": True}, {"has_token": True}):
        found = await managed.login(LogInToBroker(user="guest", password=token, **keys))
        assert (found["name"], found["tags"], found["is_internal"]) == ("orders", ["management"], False)
    with pytest.raises(RequestError, match="invalid credentials"):
        await managed.login(LogInToBroker(user="guest", password=token, loopback=True))
    change = DeclareQueue(vhost="/", name="q")
    with pytest.raises(RequestError, match="refused for user 'orders'"):
        await managed.change(ChangeBroker(user="guest", change=change, token=token))
    with pytest.raises(RequestError, match="token failed"):
        await managed.change(ChangeBroker(user="guest", change=change, token="eyJ.e.x"))
    with pytest.raises(RequestError, match="takes no OAuth 2 tokens"):
        await management().login(LogInToBroker(user="", password=token, has_token=True))


async def test_virtual_hosts_are_compared_with_a_token_once_until_they_change(
    issuer: Issuer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    serving = Serving()
    file = tmp_path / "keys.json"
    file.write_bytes(issuer.key_set("rsa"))
    tokens = token_logins(BrokerTokens(keys=str(file)), serving.broker.profile)
    managed = BrokerManagement(serving.broker, serving.served, tokens=tokens)
    token = issuer.token(aud="rabbitmq", scope="rabbitmq.read:a*/*")
    compared: list[str] = []
    may_enter = TokenUser.may_enter

    def counted(user: TokenUser, vhost: str) -> bool:
        compared.append(vhost)
        return may_enter(user, vhost)

    monkeypatch.setattr(TokenUser, "may_enter", counted)

    async def entered() -> list[str]:
        found = await managed.login(LogInToBroker(user="", password=token, has_token=True))
        return list(found["vhosts"])

    for number in range(40):
        serving.broker.add_vhost(f"a{number}")
    assert await entered() == await entered() == [f"a{number}" for number in range(40)]
    assert len(compared) == 41
    serving.broker.add_vhost("another")
    assert len(await entered()) == 41


@pytest.mark.parametrize("stored", ["", None], ids=["a hash of nothing", "no hash"])
def test_a_blank_password_is_refused(stored: str | None) -> None:
    serving = Serving()
    user = User("blank", "") if stored is None else User.with_password("blank", stored, ["administrator"])
    serving.broker.add_user(user)
    for is_loopback in (True, False):
        with pytest.raises(LoginRefused, match="blank password"):
            serving.broker.log_in("blank", "", is_loopback=is_loopback)


def test_objects_are_made_when_they_are_read() -> None:
    found = management().objects(ListBrokerObjects(kind="queues"))
    assert [each["name"] for each in found if each is not None] == ["q"]


async def test_an_unexpected_failure_of_a_change_fails_that_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    serving = Serving()
    noted = BrokerManagement(serving.broker, serving.served)

    def fail(*_: object) -> None:
        raise KeyError("unexpected")

    monkeypatch.setattr(PurgeQueue, "apply", fail)
    with pytest.raises(RequestError) as failed:
        await noted.change(ChangeBroker(user="guest", change=PurgeQueue(vhost="/", name="q")))
    assert failed.value.name == "failed"
    assert serving.broker.events.failures == 1


async def test_a_message_for_many_queues_takes_several_turns() -> None:
    serving = Serving()
    for number in range(300):
        serving.client.declare(f"q{number}")
        serving.client.bind(f"q{number}", "amq.fanout")
    serving.broker.work.quantum.limit(step=10)
    change = Publish(vhost="/", exchange="amq.fanout", routing_key="", body="")
    answers: list[object] = []

    async def publish() -> None:
        answers.append(await BrokerManagement(serving.broker, {}).change(ChangeBroker(user="guest", change=change)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(publish)
        await trio.testing.wait_all_tasks_blocked()
        assert answers == []
        while serving.broker.work:
            serving.broker.work.go_on(0.0)
    assert answers == [{"routed": True}]
    assert all(serving.client.depth(f"q{number}") == 1 for number in (0, 150, 299))
