"""Messages that are published to exchanges, and got from queues."""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import suppress
from typing import Any

from amqproxy.control import RequestError
from amqproxy.management.call import Call, Entry
from amqproxy.management.failure import Failure, bad_request
from amqproxy.management.resources.exchanges import exchange_name

OUTCOMES = {
    "ack_requeue_true": "requeue",
    "ack_requeue_false": "ack",
    "reject_requeue_true": "requeue",
    "reject_requeue_false": "reject",
}
"""Fate of a message that was got, by `ackmode`."""


async def publish(call: Call) -> Entry:
    """Publish a message, and return whether it was routed to a queue."""
    body = call.required("properties", "routing_key", "payload", "payload_encoding")
    properties = call.mapping(body, "properties")
    try:
        answer = await call.change(
            "publish",
            vhost=call.values["vhost"],
            exchange=exchange_name(call.values["name"]),
            routing_key=body["routing_key"],
            body=_encoded(body["payload"], body["payload_encoding"]),
            properties=properties,
        )
    except RequestError as error:
        if error.name == "rejected":
            raise bad_request(f"rejected {error}") from None
        if error.name == "denied":
            raise bad_request(f"403 ACCESS_REFUSED - {error}") from None
        if error.name == "invalid":
            raise bad_request(f"406 PRECONDITION_FAILED - {error}") from None
        if error.name != "not-found":
            raise
        if call.facts.is_4:
            raise Failure(404, "not_found", "exchange_not_found") from None
        raise bad_request(f"404 NOT_FOUND - {error}") from None
    return {"routed": answer["routed"]}


def _encoded(payload: Any, encoding: Any) -> str:
    """Return a payload in base64."""
    if not isinstance(payload, str):
        raise bad_request("payload is not a text")
    if encoding == "string":
        return b64encode(payload.encode()).decode()
    if encoding != "base64":
        raise bad_request(["unsupported_encoding", encoding])
    try:
        return b64encode(b64decode(payload, validate=True)).decode()
    except ValueError:
        raise bad_request(["not_base64", payload]) from None


async def get(call: Call) -> list[Entry]:
    """Get messages from a queue, and acknowledge, reject or requeue them."""
    body = call.required("count", "ackmode", "encoding")
    outcome = OUTCOMES.get(body["ackmode"]) if isinstance(body["ackmode"], str) else None
    if outcome is None:
        valid = ", ".join(OUTCOMES)
        raise bad_request(f"Invalid ackmode value: {body['ackmode']}. Valid values are: {valid}")
    try:
        answer = await call.change(
            "get",
            vhost=call.values["vhost"],
            queue=call.values["name"],
            count=_number(body["count"]),
            outcome=outcome,
            truncate=_number(body["truncate"]) if "truncate" in body else None,
        )
    except RequestError as error:
        if error.name != "not-found":
            raise
        raise Failure(404, "not_found", "queue_not_found" if call.facts.is_4 else f"NOT_FOUND - {error}") from None
    return [_message_row(each, body["encoding"]) for each in answer["messages"]]


def _number(value: Any) -> Any:
    return int(value) if isinstance(value, str) and value.isdecimal() else value


def _message_row(entry: Entry, encoding: str) -> Entry:
    """Return a message; its body is text if it can be and `encoding` is auto, and base64 otherwise."""
    row = {name: value for name, value in entry.items() if name != "body"}
    row["properties"] = row["properties"] or []  # as RabbitMQ writes an empty object
    payload, kind = entry["body"], "base64"
    if encoding == "auto":
        with suppress(UnicodeDecodeError):
            payload, kind = b64decode(payload).decode(), "string"
    return row | {"payload": payload, "payload_encoding": kind}
