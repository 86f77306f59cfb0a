"""How each method is refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.errors import Scope
from amqproxy.amqp091.methods import (
    BY_NAME,
    BasicAck,
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReturn,
    ChannelClose,
    ChannelOpen,
    ConfirmSelect,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTuneOk,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    TxSelect,
)
from amqproxy.amqp091.transitions import CLIENT, SENDERS, SERVER
from amqproxy.rules.access.refuse import WAYS
from amqproxy.rules.context import Client
from amqproxy.rules.verdict import Answer, Close, Stage
from tests.rules.scene import decided, from_client, from_server, passes, rule

CHANNEL, CONNECTION = Scope.CHANNEL, Scope.CONNECTION
ENDING = "refused for user 'guest' by rule 'r'"
HERE = f"in vhost '/' {ENDING}"


@pytest.mark.parametrize(
    ("method", "scope", "code", "text"),
    [
        (BasicPublish(exchange="e"), CHANNEL, 403, f"ACCESS_REFUSED - basic.publish to exchange 'e' {HERE}"),
        (BasicPublish(), CHANNEL, 403, f"ACCESS_REFUSED - basic.publish to exchange '' {HERE}"),
        (QueueDeclare(queue="q"), CHANNEL, 403, f"ACCESS_REFUSED - queue.declare of queue 'q' {HERE}"),
        (QueueBind(queue="q", exchange="e"), CHANNEL, 403, f"ACCESS_REFUSED - queue.bind of queue 'q' {HERE}"),
        (ExchangeDeclare(exchange="e"), CHANNEL, 403, f"ACCESS_REFUSED - exchange.declare of exchange 'e' {HERE}"),
        (ExchangeBind(destination="d"), CHANNEL, 403, f"ACCESS_REFUSED - exchange.bind of exchange 'd' {HERE}"),
        (BasicConsume(queue="q"), CHANNEL, 403, f"ACCESS_REFUSED - basic.consume from queue 'q' {HERE}"),
        (BasicGet(queue="q"), CHANNEL, 403, f"ACCESS_REFUSED - basic.get from queue 'q' {HERE}"),
        (ChannelOpen(), CHANNEL, 403, f"ACCESS_REFUSED - channel.open {HERE}"),
        (TxSelect(), CHANNEL, 403, f"ACCESS_REFUSED - tx.select {HERE}"),
        (ConfirmSelect(), CHANNEL, 403, f"ACCESS_REFUSED - confirm.select {HERE}"),
        (BasicCancel(), CHANNEL, 403, f"ACCESS_REFUSED - basic.cancel {HERE}"),
        (ConnectionOpen("v"), CONNECTION, 530, f"NOT_ALLOWED - connection.open of vhost 'v' {ENDING}"),
        (ConnectionTuneOk(), CONNECTION, 530, f"NOT_ALLOWED - connection.tune-ok {HERE}"),
        (ConnectionStartOk(), CONNECTION, 403, f"ACCESS_REFUSED - connection.start-ok {HERE}"),
    ],
    ids=lambda value: getattr(value, "name", None),
)  # fmt: skip
def test_a_request_is_refused_by_closing(method: Method, scope: Scope, code: int, text: str) -> None:
    verdict = decided(rule('action = "refuse"'), from_client(method, stage=Stage.METHOD))
    close = Close(scope, code, text, named=method.name)
    assert (verdict.command, verdict.close, verdict.is_final) == (None, close, True)


def test_what_is_not_known_yet_is_left_out_of_the_text() -> None:
    verdict = decided(rule('action = "refuse"'), from_client(ConnectionStartOk(), client=Client(user="mallory")))
    assert verdict.close is not None
    assert verdict.close.text == "ACCESS_REFUSED - connection.start-ok refused for user 'mallory' by rule 'r'"


@pytest.mark.parametrize(
    ("keys", "context", "answer"),
    [
        ({"with": "nack"}, {"is_confirming": True}, Answer.NACK),
        ({"with": "return"}, {"is_confirming": True}, Answer.RETURN),
        ({"with": "return"}, {"is_confirming": False}, Answer.RETURN),
        ({"with": "drop"}, {"is_confirming": True}, Answer.ACK),
        ({"with": "drop"}, {"is_confirming": False}, Answer.ACK),
    ],
)
def test_a_publish_has_ways_of_its_own(keys: dict[str, Any], context: dict[str, Any], answer: Answer) -> None:
    verdict = decided(rule('action = "refuse"', **keys), from_client(BasicPublish(exchange="e"), body=b"x", **context))
    assert (verdict.command, verdict.close, verdict.answer, verdict.is_final) == (None, None, answer, True)
    assert verdict.returned == (312, "NO_ROUTE")


def test_a_nack_without_confirms_closes_the_channel() -> None:
    refuse = rule('action = "refuse"\nwith = "nack"\ncode = 406\ntext = "not now"')
    assert not refuse.is_constant
    verdict = decided(refuse, from_client(BasicPublish(), stage=Stage.METHOD))
    assert (verdict.answer, verdict.close) == (Answer.NOTHING, Close(CHANNEL, 406, "not now"))


@pytest.mark.parametrize(
    ("keys", "returned"),
    [
        ({"code": 313}, (313, "NO_CONSUMERS")),
        ({"code": 399}, (399, "ERROR")),
        ({"text": "closed until {headers.until}"}, (312, "closed until ")),
    ],
)
def test_a_return_has_the_configured_code_and_text(keys: dict[str, Any], returned: tuple[int, str]) -> None:
    refuse = rule('action = "refuse"\nwith = "return"', **keys)
    assert refuse.needs is Stage.BODY
    assert decided(refuse, from_client(BasicPublish())).returned == returned


@pytest.mark.parametrize(
    ("way", "answer"),
    [
        (None, Answer.REJECT),
        ("reject", Answer.REJECT),
        ("requeue", Answer.REQUEUE),
        ("drop", Answer.ACK),
        ("nack", Answer.REJECT),
    ],
)
def test_a_delivery_goes_back(way: str | None, answer: Answer) -> None:
    refuse = rule('action = "refuse"', **({"with": way} if way else {}))
    for method in (BasicDeliver(delivery_tag=1), BasicGetOk(delivery_tag=1)):
        verdict = decided(refuse, from_server(method, stage=Stage.METHOD))
        assert (verdict.command, verdict.answer, verdict.close, verdict.is_final) == (None, answer, None, True)
        inserted = [insertion.command.method.name for insertion in verdict.insertions]
        assert inserted == (["basic.get-empty"] if isinstance(method, BasicGetOk) else [])


def test_a_channel_closed_for_a_delivery_is_the_clients_to_hear_of() -> None:
    verdict = decided(rule('action = "refuse"\nwith = "close"\ntext = "no"'), from_server(BasicDeliver()))
    assert verdict.close == Close(CHANNEL, 403, "no", CLIENT)


@pytest.mark.parametrize(
    "context",
    [
        from_client(BasicAck(1)),
        from_client(BasicNack(1)),
        from_server(BasicAck(1)),
        from_server(BasicNack(1)),
        from_server(BasicReturn()),
        from_server(BasicCancel("t")),
        from_server(ConnectionBlocked("low on memory")),
    ],
    ids=lambda context: f"{context.sender} {context.command.method.name}",
)
def test_what_asks_for_no_answer_is_dropped(context: Any) -> None:
    verdict = decided(rule('action = "refuse"'), context)
    assert (verdict.command, verdict.answer, verdict.close, verdict.is_final) == (None, Answer.NOTHING, None, True)


@pytest.mark.parametrize(
    "context",
    [
        from_client(ChannelClose()),
        from_client(ConnectionClose()),
        from_server(ConnectionClose()),
        from_server(QueueDeclareOk()),
    ],
)
def test_what_cannot_be_refused_passes(context: Any) -> None:
    refuse = rule('action = "refuse"')
    assert context.command.method.name not in refuse.methods
    assert passes(refuse, context)


def test_every_request_can_be_refused() -> None:
    unrefusable = {name for name in BY_NAME if CLIENT in SENDERS[name] and (CLIENT, name) not in WAYS}
    assert unrefusable == {
        *("connection.close", "connection.close-ok", "channel.close", "channel.close-ok"),
        *("channel.flow-ok", "basic.cancel-ok"),
    }
    assert {name for sender, name in WAYS if sender is SERVER} == {
        *("basic.deliver", "basic.get-ok", "basic.return", "basic.ack", "basic.nack", "basic.cancel"),
        *("connection.blocked", "connection.unblocked"),
    }


@pytest.mark.parametrize(
    ("keys", "method", "close"),
    [
        ({"code": 404}, TxSelect(), (CHANNEL, 404, f"NOT_FOUND - tx.select {HERE}")),
        ({"code": 320, "text": "go away"}, QueueDeclare(), (CONNECTION, 320, "go away")),
        ({"code": 320, "text": "x", "scope": "channel"}, QueueDeclare(), (CHANNEL, 320, "x")),
        ({"text": "x", "scope": "connection"}, QueueDeclare(), (CONNECTION, 403, "x")),
        ({"text": "x", "scope": "channel"}, ConnectionOpen(), (CONNECTION, 530, "x")),
        ({"code": 499, "text": "x"}, QueueDeclare(), (CHANNEL, 499, "x")),
        ({"text": "{user} of {client.address}: {{{rule}}}"}, TxSelect(), (CHANNEL, 403, "guest of 10.0.0.7: {r}")),
        ({"text": ""}, TxSelect(), (CHANNEL, 403, "")),
        ({"text": "{queue}{queue}"}, QueueDeclare(queue="é" * 100), (CHANNEL, 403, "é" * 126 + "...")),
    ],
)  # fmt: skip
def test_any_code_and_text(keys: dict[str, Any], method: Method, close: tuple[Scope, int, str]) -> None:
    expected = Close(*close, named="" if "text" in keys else method.name)
    assert decided(rule('action = "refuse"', **keys), from_client(method)).close == expected


def test_a_long_name_does_not_overflow_the_text() -> None:
    close = decided(rule('action = "refuse"'), from_client(QueueDeclare(queue="ü" * 127))).close
    assert close is not None
    assert 252 <= len(close.text.encode()) <= 255
    assert close.text.endswith("...")


@pytest.mark.parametrize(
    ("keys", "stage", "is_constant"),
    [
        ({}, Stage.METHOD, True),
        ({"with": "drop"}, Stage.METHOD, True),
        ({"text": "{user} {queue}"}, Stage.METHOD, True),
        ({"text": "{headers.a}"}, Stage.HEADER, False),
        ({"text": "{body}"}, Stage.BODY, False),
    ],
)
def test_how_much_it_needs(keys: dict[str, Any], stage: Stage, is_constant: bool) -> None:
    refuse = rule('action = "refuse"', **keys)
    assert (refuse.needs, refuse.is_constant) == (stage, is_constant)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('match.method = "channel.close"', "channel.close cannot be refused"),
        (
            'match.method = ["queue.declare-ok", "connection.tune"]',
            "connection.tune, queue.declare-ok cannot be refused",
        ),
        ('text = "{usr}"', "`{usr}` is not a known name"),
        ('text = "{user"', "unmatched brace"),
        ('with = "ignore"', "Invalid enum value 'ignore'"),
        ("code = 7", ">= 200"),
    ],
)
def test_what_makes_no_sense_is_not_loaded(text: str, reason: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=reason):
        rule(f'action = "refuse"\n{text}')
