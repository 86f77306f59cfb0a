"""Policies and operator policies."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from html import escape

from amqproxy.control import RequestError
from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import bad_request
from amqproxy.management.listing import Rows

ALL_KINDS = "should be one of: 'queues', 'classic_queues',  'quorum_queues', 'streams', 'exchanges', or 'all'"
"""The end of RabbitMQ 4's text about an unknown `apply-to`, which 3.10 has otherwise."""


def listing(kind: str) -> Callable[[Call], Awaitable[Rows]]:
    """Return the handler that lists policies of a kind, of a virtual host or of all that the user may use."""

    async def handler(call: Call) -> Rows:
        async def rows() -> AsyncIterator[Entry]:
            async for each in call.broker.objects(kind, call.values.get("vhost")):
                if call.sees(each["vhost"]):
                    yield each

        return Rows(rows(), ("priority",))

    return handler


def one(kind: str) -> Callable[[Call], Awaitable[Entry]]:
    """Return the handler of one policy of a kind."""

    async def handler(call: Call) -> Entry:
        return await call.one(kind, call.values["name"], call.values["vhost"])

    return handler


def putting(*, is_operator: bool) -> Callable[[Call], Awaitable[Done]]:
    """Return the handler that sets a policy, or an operator policy."""

    async def handler(call: Call) -> Done:
        body = call.required("pattern", "definition")
        try:
            answer = await call.change(
                "put-policy",
                vhost=call.values["vhost"],
                name=call.values["name"],
                pattern=body["pattern"],
                definition=body["definition"],
                priority=body.get("priority"),
                apply_to=body.get("apply-to"),
                is_operator=is_operator,
            )
        except RequestError as error:
            if error.name != "invalid":
                raise
            raise bad_request(_validation(str(error), is_operator, call.facts.is_4)) from None
        return put(answer)

    return handler


def _validation(text: str, is_operator: bool, is_4: bool) -> str:
    """Return RabbitMQ's text about a policy that is not valid."""
    if not is_4:
        text = text.replace(ALL_KINDS, "should be 'queues', 'exchanges' or 'all'")
        text = text if is_operator else escape(text, quote=False)
    return f"Validation failed\n\n{text}\n"


def deleting(*, is_operator: bool) -> Callable[[Call], Awaitable[Done]]:
    """Return the handler that removes a policy, or an operator policy."""

    async def handler(call: Call) -> Done:
        place = {"vhost": call.values["vhost"], "name": call.values["name"]}
        return deleted(await call.change("delete-policy", is_operator=is_operator, **place))

    return handler
