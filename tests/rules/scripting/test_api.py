"""What a script is written with."""

from __future__ import annotations

from typing import Any

import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import BasicAck, BasicPublish, BasicQos, QueueDeclare
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.amqp091.wire import Table
from amqproxy.rules.scripting import Answer, Context, change, drop, insert, refuse
from amqproxy.rules.verdict import Close, Insertion, Verdict
from tests.rules.scene import GUEST, from_client, from_server

SEEN = from_client(BasicPublish(exchange="e", routing_key="k"), Properties(type="t"), b"body", now=5.0, time=7.0)


def test_a_context_has_what_is_known() -> None:
    shared: dict[Any, Any] = {}
    context = Context("r", SEEN, shared)
    assert (context.rule, context.sender, context.is_from_client, context.client) == ("r", CLIENT, True, GUEST)
    assert (context.channel.number, context.now, context.time, context.random()) == (1, 5.0, 7.0, 0.0)
    context.shared["a"], context.store["b"] = 1, 2
    assert shared == {"a": 1}
    assert not Context("r", from_server(BasicAck())).is_from_client
    with pytest.raises(AttributeError, match="there is no command"):
        _ = Context("r").client


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"routing_key": "x"}, (BasicPublish(exchange="e", routing_key="x"), Properties(type="t"), b"body")),
        ({"body": "é"}, (SEEN.command.method, Properties(type="t"), b"\xc3\xa9")),
        ({"body": b""}, (SEEN.command.method, Properties(type="t"), b"")),
        ({"headers": {"a": 1}}, (SEEN.command.method, Properties(type="t", headers=Table({"a": 1})), b"body")),
        ({"properties": Properties(priority=1)}, (SEEN.command.method, Properties(priority=1), b"body")),
        (
            {"properties": Properties(priority=1), "headers": {}, "mandatory": True},
            (BasicPublish(0, "e", "k", mandatory=True), Properties(priority=1, headers=Table()), b"body"),
        ),
    ],
)
def test_change(changes: dict[str, Any], expected: tuple[Any, ...]) -> None:
    command = change(SEEN.command, **changes).command
    assert command is not None
    assert (command.method, command.properties, command.body) == expected
    assert command.is_complete


def test_change_by_the_specifications_names() -> None:
    changed = change(from_client(BasicQos()).command, prefetch_count=5, **{"global": True}).command
    assert changed is not None
    assert changed.method == BasicQos(prefetch_count=5, global_=True)
    with pytest.raises(ValueError, match=r"queue\.declare has no field `exchange`: there are queue, passive"):
        change(from_client(QueueDeclare()).command, exchange="x")


def test_drop_and_refuse() -> None:
    assert drop(SEEN.command) == Verdict(command=None, answer=Answer.ACK, is_final=True)
    assert drop(SEEN.command, Answer.REQUEUE).answer is Answer.REQUEUE
    assert refuse("no").close == Close(Scope.CHANNEL, 403, "ACCESS_REFUSED - no")
    assert refuse("no", 320).close == Close(Scope.CONNECTION, 320, "CONNECTION_FORCED - no")
    assert refuse("no", 404, Scope.CONNECTION).close == Close(Scope.CONNECTION, 404, "NOT_FOUND - no")
    assert refuse("no", 499).close == Close(Scope.CHANNEL, 499, "ERROR - no")
    assert refuse().close == Close(Scope.CHANNEL, 403, "ACCESS_REFUSED")


def test_insert() -> None:
    other = from_client(BasicAck(1)).command
    assert insert(SEEN.command, (CLIENT, other)) == Verdict(
        command=SEEN.command, insertions=(Insertion(CLIENT, other),)
    )
