"""Facts about a broker, and logins to it."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from amqproxy.broker.access.users import LoginRefused, User
from amqproxy.control.changes.message_changes import Publish
from amqproxy.control.changes.topology_changes import PurgeQueue
from amqproxy.control.management.broker_management import BrokerManagement, ListenerFacts
from amqproxy.control.request import ChangeBroker, ListBrokerObjects, LogInToBroker
from amqproxy.control.request_error import RequestError
from tests.control.served import Serving


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


def test_a_login_shows_tags_and_virtual_hosts() -> None:
    found = management().login(LogInToBroker(user="guest", password="guest", loopback=True, vhost="none"))
    assert found == {"name": "guest", "tags": ["administrator"], "vhosts": ["/"], "has_vhost": False}


@pytest.mark.parametrize(
    "login",
    [
        LogInToBroker(user="guest", password="wrong", loopback=True),
        LogInToBroker(user="nobody", password="guest", loopback=True),
        LogInToBroker(user="guest", password="guest", loopback=False),
    ],
)
def test_a_wrong_login_is_refused(login: LogInToBroker) -> None:
    with pytest.raises(RequestError) as refused:
        management().login(login)
    assert refused.value.name == "refused"


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
