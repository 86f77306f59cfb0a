"""Who may do what: users, their permissions, topic permissions and limits."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from amqproxy.amqp091.methods import (
    BasicConsume,
    BasicGet,
    ConnectionOpen,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from amqproxy.amqp091.wire import Table
from tests.behaviours.client import Channel, Client, Closed, login, until
from tests.behaviours.scene import Scene
from tests.behaviours.target import Target

pytestmark = pytest.mark.real

VHOST, FULL = "guarded", "guarded-full"
USERS = ("nobody", "limited", "topical", "outsider", "few", "impersonator")


@pytest.fixture(scope="module")
def guarded(broker: Target) -> Iterator[Target]:
    """A virtual host with users of all sorts, and one that is full.

    `limited` may configure c-…, write w-… and read r-…, and everything where the name begins with all-.
    """
    everything = {"configure": ".*", "write": ".*", "read": ".*"}
    broker.define(
        vhosts=[{"name": VHOST}, {"name": FULL}],
        users=[{"name": user, "password": user, "tags": "impersonator" * (user == USERS[-1])} for user in USERS],
        permissions=[
            {"vhost": VHOST, "user": "guest", **everything},
            {"vhost": FULL, "user": "guest", **everything},
            {"vhost": VHOST, "user": "nobody", "configure": "", "write": "", "read": ""},
            {
                "vhost": VHOST,
                "user": "limited",
                "configure": "^(all-|c-|amq\\.gen)",
                "write": "^(all-|w-|amq\\.gen)",
                "read": "^(all-|r-)",
            },
            {"vhost": VHOST, "user": "topical", **everything},
            {"vhost": VHOST, "user": "few", **everything},
            {"vhost": VHOST, "user": "impersonator", **everything},
        ],
        topic_permissions=[
            {
                "vhost": VHOST,
                "user": "topical",
                "exchange": "amq.topic",
                "write": "^({username}|{vhost})\\.",
                "read": "^r\\.",
            },
        ],
    )
    yield broker
    broker.forget(vhosts=(VHOST, FULL), users=USERS)


@pytest.fixture
def everything(guarded: Target, scene: Scene) -> Channel:
    """guest's channel, which may do all."""
    return scene.channel(vhost=VHOST)


def user(scene: Scene, name: str) -> Channel:
    return scene.channel(vhost=VHOST, user=name, password=name)


# --------------------------------------------------------------------------------------------- what each method needs

C, W, R = ("c-q", "c-x"), ("w-q", "w-x"), ("r-q", "r-x")


@pytest.fixture(scope="module")
def furnished(guarded: Target) -> Iterator[None]:
    """Queues and exchanges of every kind."""
    client = guarded.connect(VHOST)
    ch = client.channel()
    for queue, exchange in (C, W, R, ("all-q", "all-x")):
        ch.declare(queue)
        ch.exchange(exchange, "fanout")
    yield
    client.close()


def expect_refusal(scene: Scene, ch: Channel, method: str, what: str, user: str) -> None:
    """Expect a 403, whose text names the operation if those of the version do."""
    refusal, named = re.subn(r"(?<=ACCESS_REFUSED - )(configure|write|read) (?=access)", "", ch.refusal())
    assert refusal == (
        f"channel 403 {method} ACCESS_REFUSED - access to {what} in vhost '{VHOST}' refused for user '{user}'"
    )
    assert bool(named) is scene.profile.names_operation


@pytest.mark.parametrize(
    ("method", "refused"),
    [
        (QueueDeclare(queue="c-q"), None),
        (QueueDeclare(queue="w-q"), "queue 'w-q'"),
        (QueueDeclare(queue="r-new"), "queue 'r-new'"),
        (QueueDeclare(), None),
        (QueueDeclare(queue="w-q", passive=True), None),
        (QueueDelete(queue="w-q"), "queue 'w-q'"),
        (QueueDelete(queue="r-nil"), "queue 'r-nil'"),
        (ExchangeDeclare(exchange="c-x", type="fanout"), None),
        (ExchangeDeclare(exchange="w-x", type="fanout"), "exchange 'w-x'"),
        (ExchangeDeclare(exchange="w-x", passive=True), None),
        (ExchangeDelete(exchange="w-x"), "exchange 'w-x'"),
        (QueueBind(queue="w-q", exchange="r-x"), None),
        (QueueBind(queue="c-q", exchange="r-x"), "queue 'c-q'"),
        (QueueBind(queue="w-q", exchange="w-x"), "exchange 'w-x'"),
        (QueueUnbind(queue="w-q", exchange="r-x"), None),
        (QueueUnbind(queue="r-q", exchange="r-x"), "queue 'r-q'"),
        (QueueUnbind(queue="w-q", exchange="c-x"), "exchange 'c-x'"),
        (ExchangeBind(destination="w-x", source="r-x"), None),
        (ExchangeBind(destination="r-x", source="r-x"), "exchange 'r-x'"),
        (ExchangeBind(destination="w-x", source="w-x"), "exchange 'w-x'"),
        (ExchangeUnbind(destination="w-x", source="r-x"), None),
        (ExchangeUnbind(destination="r-x", source="r-x"), "exchange 'r-x'"),
        (QueuePurge(queue="r-q"), None),
        (QueuePurge(queue="c-q"), "queue 'c-q'"),
        (BasicConsume(queue="r-q"), None),
        (BasicConsume(queue="w-q"), "queue 'w-q'"),
        (BasicGet(queue="r-q"), None),
        (BasicGet(queue="w-q"), "queue 'w-q'"),
        (QueueDeclare(queue="c-dlx", arguments=Table({"x-dead-letter-exchange": "w-x"})), "queue 'c-dlx'"),
        (QueueDeclare(queue="all-1", arguments=Table({"x-dead-letter-exchange": "w-x"}), auto_delete=True), None),
        (QueueDeclare(queue="all-2", arguments=Table({"x-dead-letter-exchange": "r-x"})), "exchange 'r-x'"),
        (
            ExchangeDeclare(exchange="all-a", arguments=Table({"alternate-exchange": "w-x"}), auto_delete=True),
            None,
        ),
        (ExchangeDeclare(exchange="all-b", arguments=Table({"alternate-exchange": "r-x"})), "exchange 'r-x'"),
        (ExchangeDeclare(exchange="c-ae", arguments=Table({"alternate-exchange": "w-x"})), "exchange 'c-ae'"),
    ],
    ids=lambda value: " ".join(map(str, value.to_dict().values())) if isinstance(value, Method) else None,
)
def test_what_each_method_needs(furnished: None, scene: Scene, method: Method, refused: str | None) -> None:
    ch = user(scene, "limited")
    if refused is None:
        ch.call(method)
    else:
        ch.send(method)
        expect_refusal(scene, ch, method.name, refused, "limited")


def test_publish_needs_write(furnished: None, scene: Scene, everything: Channel) -> None:
    ch = user(scene, "limited")
    queue = everything.declare(exclusive=True)
    everything.bind(queue, "w-x")
    ch.publish("w-x", "", b"x")
    until(lambda: everything.depth(queue) == 1, "the message")
    ch.publish("r-x", "")
    expect_refusal(scene, ch, "basic.publish", "exchange 'r-x'", "limited")


def test_the_default_exchange_is_amq_default(furnished: None, scene: Scene) -> None:
    ch = user(scene, "limited")
    ch.publish("", "w-q")
    expect_refusal(scene, ch, "basic.publish", "exchange 'amq.default'", "limited")


@pytest.mark.parametrize(
    ("method", "what"),
    [
        (QueueDeclare(queue="q"), "queue 'q'"),
        (ExchangeDeclare(exchange="x"), "exchange 'x'"),
        (QueueDelete(queue="q"), "queue 'q'"),
        (BasicGet(queue="r-q"), "queue 'r-q'"),
    ],
    ids=lambda value: value.name if isinstance(value, Method) else None,
)
def test_an_empty_pattern_permits_nothing(furnished: None, scene: Scene, method: Method, what: str) -> None:
    ch = user(scene, "nobody")
    ch.send(method)
    expect_refusal(scene, ch, method.name, what, "nobody")


@pytest.mark.parametrize(
    ("declare", "what"),
    [
        (QueueDeclare(queue="c-q", passive=True), "queue 'c-q'"),
        (QueueDeclare(queue="nil", passive=True), "queue 'nil'"),
        (ExchangeDeclare(exchange="amq.direct", passive=True), "exchange 'amq.direct'"),
    ],
    ids=["queue", "no queue", "exchange"],
)
def test_a_passive_declare_needs_some_permission(
    furnished: None, scene: Scene, declare: QueueDeclare | ExchangeDeclare, what: str
) -> None:
    ch = user(scene, "nobody")
    ch.send(declare)
    if scene.profile.checks_passive:
        expect_refusal(scene, ch, declare.name, what, "nobody")
    elif what == "queue 'nil'":
        ch.expect_close(f"channel 404 queue.declare NOT_FOUND - no queue 'nil' in vhost '{VHOST}'")
    else:
        ch.wait_for(QueueDeclareOk, ExchangeDeclareOk)


def test_without_permissions_for_a_queue_its_absence_is_not_revealed(furnished: None, scene: Scene) -> None:
    """Access is checked before existence."""
    ch = user(scene, "nobody")
    ch.send(BasicGet(queue="nil"))
    expect_refusal(scene, ch, "basic.get", "queue 'nil'", "nobody")


# --------------------------------------------------------------------------------------------------- virtual hosts


def test_no_permissions_in_the_virtual_host(guarded: Target, scene: Scene) -> None:
    with pytest.raises(Closed) as closed:
        scene.client(vhost=VHOST, user="outsider", password="outsider")
    assert str(closed.value) == (
        f"connection 530 connection.open NOT_ALLOWED - access to vhost '{VHOST}' refused for user 'outsider'"
    )


def test_what_was_permitted_is_taken_back(guarded: Target, scene: Scene) -> None:
    """From the next connection on, and where the channel has not asked lately."""
    guarded.set_permissions(VHOST, "outsider", ".*", ".*", ".*")
    user(scene, "outsider").declare("outside", exclusive=True)
    guarded.set_permissions(VHOST, "outsider", "", "", "")
    ch = user(scene, "outsider")
    ch.send(QueueDeclare(queue="outside"))
    assert ch.refusal().startswith("channel 403 queue.declare ACCESS_REFUSED")
    guarded.clear_permissions(VHOST, "outsider")


def test_a_changed_password(guarded: Target, scene: Scene) -> None:
    guarded.change_password("nobody", "other")
    scene.client(vhost=VHOST, user="nobody", password="other")
    client = scene.bare()
    client.greet()
    client.start_ok(login("nobody", "nobody"))
    assert client.zero.refusal().startswith("connection 403")
    guarded.change_password("nobody", "nobody")


# ------------------------------------------------------------------------------------------------------ topics


@pytest.mark.parametrize(
    ("key", "may"), [("topical.a", True), (f"{VHOST}.a", True), ("other.a", False), ("topical", False)]
)
def test_writing_to_topics(guarded: Target, scene: Scene, everything: Channel, key: str, may: bool) -> None:
    ch = user(scene, "topical")
    queue = everything.declare(exclusive=True)
    everything.bind(queue, "amq.topic", "#")
    ch.publish("amq.topic", key)
    if may:
        until(lambda: everything.depth(queue) == 1, "the message")
    else:
        expect_refusal(scene, ch, "basic.publish", f"topic '{key}' in exchange 'amq.topic'", "topical")


def test_topic_permissions_hold_for_their_exchange_only(guarded: Target, scene: Scene) -> None:
    ch = user(scene, "topical")
    ch.exchange("other-topic", "topic", auto_delete=True)
    ch.publish("other-topic", "other.a")
    ch.publish("amq.direct", "other.a")
    ch.expect_nothing()


@pytest.mark.parametrize(("key", "may"), [("r.#", True), ("w.#", False), ("#", False)])
def test_reading_topics(guarded: Target, scene: Scene, key: str, may: bool) -> None:
    ch = user(scene, "topical")
    queue = ch.declare(exclusive=True)
    method = QueueBind(queue=queue, exchange="amq.topic", routing_key=key)
    if may:
        ch.call(method)
    else:
        ch.send(method)
        expect_refusal(scene, ch, "queue.bind", f"topic '{key}' in exchange 'amq.topic'", "topical")


# ----------------------------------------------------------------------------------------------- tags and limits


def test_an_impersonator_may_set_any_user_id(guarded: Target, scene: Scene) -> None:
    ch = user(scene, "impersonator")
    queue = ch.declare(exclusive=True)
    ch.publish("", queue, user_id="somebody")
    received = ch.get(queue)
    assert received
    assert received.properties.user_id == "somebody"


def test_limits_of_a_virtual_host(guarded: Target, scene: Scene) -> None:
    guarded.set_vhost_limits(FULL, {"max-connections": 2, "max-queues": 1})
    first = scene.channel(vhost=FULL)
    first.declare("one", exclusive=True)
    first.declare("one", exclusive=True)
    first.send(QueueDeclare(queue="two"))
    first.expect_close(
        f"channel 406 queue.declare PRECONDITION_FAILED - cannot declare queue 'two': queue limit in vhost "
        f"'{FULL}' (1) is reached"
    )
    scene.client(vhost=FULL)
    third = _tuned(scene, "guest")
    third.zero.send(ConnectionOpen(FULL))
    third.zero.expect_close(
        f"connection 530 connection.open NOT_ALLOWED - access to vhost '{FULL}' refused for user 'guest': connection "
        "limit (2) is reached"
    )


@pytest.mark.unsupported_on_rabbitmq("it names the node for the user", "4.0")
def test_limits_of_a_user(guarded: Target, scene: Scene) -> None:
    guarded.set_user_limits("few", {"max-connections": 1, "max-channels": 2})
    client = scene.client(vhost=VHOST, user="few", password="few")
    client.channel()
    client.channel()
    with pytest.raises(Closed) as closed:
        client.channel()
    limit = scene.profile.user_limit_text.format(limit=2)
    assert str(closed.value) == (
        f"connection 530 0.0 NOT_ALLOWED - number of channels opened for user 'few' has reached the maximum allowed "
        f"user limit of {limit}"
    )
    scene.client(vhost=VHOST, user="few", password="few")
    refused = _tuned(scene, "few")
    refused.zero.send(ConnectionOpen(VHOST))
    refused.zero.expect_close(
        "connection 530 connection.open NOT_ALLOWED - connection refused for user 'few': user connection limit (1) is "
        "reached"
    )


def _tuned(scene: Scene, name: str) -> Client:
    client = scene.bare()
    client.greet()
    client.start_ok(login(name, name))
    client.zero.expect(ConnectionTune)
    client.zero.send(ConnectionTuneOk(2047, 131072, 0))
    return client
