"""Export of messages as a pytest test with the fixtures of `amqproxy.testing`, which expects the same outcomes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec

from amqproxy.amqp091.errors import NoRoute
from amqproxy.amqp091.methods import (
    BasicPublish,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
)
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Array, Table
from amqproxy.dashboard.equivalent_command import equivalent_command
from amqproxy.dashboard.message_ring import FINDING, Content, MessageRow
from amqproxy.taps.amqp010.transfers import TransferBase
from amqproxy.taps.message_record import MessageRecord
from amqproxy.taps.trace.equivalents import equivalent

_decode = msgspec.json.Decoder(MessageRecord).decode

MAX_MESSAGES = 200
"""Maximum number of publishes in one test."""

_UNROUTABLE = 1
"""The code of a 0-10 message.reject for a message that no queue takes."""

_HEAD = '''\
"""What passed on {date}, played again: made by the dashboard of amqproxy. See docs/testing.md of amqproxy."""

import datetime
from decimal import Decimal

import pika


def test_what_passed(amqp_proxy):
    with pika.BlockingConnection(pika.URLParameters(amqp_proxy.url)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
'''


def pytest_of(rows: Iterable[MessageRow]) -> Iterator[str]:
    """Yield the lines of a test that repeats the declarations and publishes of these messages."""
    chosen = [row for row in rows if row.content is not None and row.type != FINDING]
    chosen.sort(key=lambda row: row.ts_ns)
    first = datetime.fromtimestamp(chosen[0].ts_ns / 1e9, UTC) if chosen else datetime.now(UTC)
    yield _HEAD.format(date=first.isoformat(timespec="seconds"))
    published: list[MessageRecord] = []
    names: dict[str, str] = {}
    queues: set[str] = set()
    left_out = 0
    for row in chosen:
        content = row.content
        assert content is not None
        record = _decode(row.json)
        if len(published) >= MAX_MESSAGES:
            left_out += 1
            continue
        if record.type == "request":
            request = equivalent(None if isinstance(content.method, TransferBase) else content.method)
            if request is not None:
                yield from _request(request, record, names, queues)
        elif record.type == "publish":
            command = equivalent_command(content)
            if command is not None and isinstance(command.method, BasicPublish):
                yield from _publish(content, command.method, command.properties, record, names, queues)
                published.append(record)
    if not published:
        yield "        # There is no publish among the messages that were chosen.\n"
    yield "\n"
    for number, record in enumerate(published):
        yield from _expectation(number, record)
    if left_out:
        yield f"    # {left_out} more were left out.\n"


def _request(method: Method, record: MessageRecord, names: dict[str, str], queues: set[str]) -> Iterator[str]:
    """Yield the pika call of a declaration or a binding; none for other requests."""
    if record.outcome not in ("answered", "sent"):
        return
    match method:
        case ExchangeDeclare(passive=False) if method.exchange and not method.exchange.startswith("amq."):
            flags = _flags(method, "durable", "auto_delete", "internal")
            kind = _literal(method.type)
            yield f"        channel.exchange_declare({_literal(method.exchange)}, {kind}{flags}{_arguments(method)})\n"
        case QueueDeclare(passive=False):
            flags = _flags(method, "durable", "exclusive", "auto_delete")
            named = (record.reply_arguments or {}).get("queue")
            if method.queue:
                queues.add(method.queue)
                yield f"        channel.queue_declare({_literal(method.queue)}{flags}{_arguments(method)})\n"
            elif isinstance(named, str):
                variable = names[named] = f"queue_{len(names) + 1}"
                yield f'        {variable} = channel.queue_declare(""{flags}{_arguments(method)}).method.queue\n'
        case QueueBind():
            where = f"{_name(method.queue, names)}, {_literal(method.exchange)}, {_name(method.routing_key, names)}"
            yield f"        channel.queue_bind({where}{_arguments(method)})\n"
        case ExchangeBind():
            ends = f"{_literal(method.destination)}, {_literal(method.source)}, {_literal(method.routing_key)}"
            yield f"        channel.exchange_bind({ends}{_arguments(method)})\n"
        case _:
            pass


def _publish(
    content: Content,
    method: BasicPublish,
    given: Properties,
    record: MessageRecord,
    names: dict[str, str],
    queues: set[str],
) -> Iterator[str]:
    key = method.routing_key
    if not method.exchange and key and key not in queues and key not in names and record.outcome == "confirmed":
        queues.add(key)
        if record.code is None:
            yield f"        channel.queue_declare({_literal(key)})  # it was there already\n"
    properties = {name: value for name, value in given.present().items() if name != "user_id"}
    shown = ", ".join(f"{name}={_literal(value)}" for name, value in properties.items())
    if len(content.body) < content.size:
        yield f"        # Of the body, which had {content.size} bytes, {len(content.body)} are known.\n"
    yield "        try:\n"
    yield "            channel.basic_publish(\n"
    yield f"                {_literal(method.exchange)},\n"
    yield f"                {_name(key, names)},\n"
    yield f"                {_literal(content.body)},\n"
    if shown:
        yield f"                pika.BasicProperties({shown}),\n"
    if method.mandatory:
        yield "                mandatory=True,\n"
    yield "            )\n"
    yield "        except (pika.exceptions.NackError, pika.exceptions.UnroutableError):\n"
    yield "            pass  # what is expected is below\n"


def _expectation(number: int, record: MessageRecord) -> Iterator[str]:
    if not number:
        yield '    published = amqp_proxy.messages.where("true", type="publish")\n'
    is_unroutable = record.code == _UNROUTABLE
    outcome = "confirmed" if is_unroutable or record.outcome in ("sent", "committed") else record.outcome
    if outcome in ("confirmed", "nacked"):
        yield f"    assert published[{number}].outcome == {_literal(outcome)}\n"
    if record.code is not None:
        yield f"    assert published[{number}].code == {NoRoute.code if is_unroutable else record.code}\n"


def _flags(method: Any, *names: str) -> str:
    return "".join(f", {name}=True" for name in names if getattr(method, name))


def _arguments(method: Any) -> str:
    return f", arguments={_literal(method.arguments)}" if method.arguments else ""


def _name(name: str, names: dict[str, str]) -> str:
    return names.get(name) or _literal(name)


def _literal(value: Any) -> str:
    """Return a value as a Python literal; text from a peer can never become code."""
    if isinstance(value, Table):
        return (
            "{" + ", ".join(f"{_literal(name)}: {_literal(each)}" for name, each in value.values_by_name.items()) + "}"
        )
    if isinstance(value, Array):
        return "[" + ", ".join(_literal(item.value) for item in value.items) + "]"
    return ascii(str(value)) if isinstance(value, str) else ascii(value)
