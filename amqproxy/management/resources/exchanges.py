"""Exchanges."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import bad_request
from amqproxy.management.listing import Rows
from amqproxy.management.statistics.figures import Figures

DEFAULT = "amq.default"
"""The default exchange's name in paths."""


async def exchanges(call: Call) -> Rows:
    """Return the exchanges of a virtual host, or of all that the user may use."""

    figures = call.figures_of_columns

    async def rows() -> AsyncIterator[Entry]:
        async for each in call.broker.objects("exchanges", call.values.get("vhost")):
            if call.sees(each["vhost"]):
                yield exchange_row(each, figures)

    return Rows(rows(), has_pages=True)


async def exchange(call: Call) -> Entry:
    found = await call.one("exchanges", exchange_name(call.values["name"]), call.values["vhost"])
    return exchange_row(found, call.figures) | {"incoming": [], "outgoing": []}


def exchange_name(segment: str) -> str:
    """Return the name of the exchange that a segment of a path names."""
    return "" if segment == DEFAULT else segment


def exchange_row(entry: Entry, figures: Figures) -> Entry:
    """Return the row of an exchange; as in RabbitMQ, it names a policy only if there is one."""
    policy = entry["policy"]
    row = {name: value for name, value in entry.items() if name not in ("policy", "counts")}
    row |= figures.of_exchange(entry["vhost"], entry["name"], entry["counts"])
    return row if policy is None else row | {"policy": policy}


async def put_exchange(call: Call) -> Done:
    """Declare an exchange."""
    body = call.json()
    flags = {"durable": True, "auto_delete": False, "internal": False}
    type_ = body.get("type", "direct")
    if not call.facts.is_4 and type_ not in call.facts["exchange_types"]:
        fault = "unknown" if type_ and not call.facts.is_4 else "invalid"
        raise bad_request(f"{fault} exchange type '{type_}'")
    return put(
        await call.change(
            "declare-exchange",
            vhost=call.values["vhost"],
            name=exchange_name(call.values["name"]),
            type=type_,
            arguments=call.mapping(body, "arguments"),
            **{name: call.boolean(body, name, usual) for name, usual in flags.items()},
        )
    )


async def delete_exchange(call: Call) -> Done:
    name, if_unused = exchange_name(call.values["name"]), call.flag("if-unused")
    return deleted(await call.change("delete-exchange", vhost=call.values["vhost"], name=name, if_unused=if_unused))
