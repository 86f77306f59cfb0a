"""Lives of messages across connections."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Response

from amqproxy.dashboard.api.dependencies import SeqOf, SourceOf
from amqproxy.dashboard.api.messages import row_of
from amqproxy.dashboard.api.queries import time_ns
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.message_lives import found_in_time
from amqproxy.dashboard.message_ring import MessageRow
from amqproxy.dashboard.source import Source
from amqproxy.linking.life_history import LifeSearch
from amqproxy.linking.life_record import LifeRecord
from amqproxy.taps.record import encoded

router = APIRouter(tags=["messages"])

MAX_LIVES = 1_000
"""Maximum number of lives in one response."""

Name = Annotated[str | None, Query(max_length=1000)]


@router.get("/sources/{source}/lives")
async def list_lives(
    source: SourceOf,
    message_id: Name = None,
    exchange: Name = None,
    routing_key: Name = None,
    queue: Name = None,
    start: Name = None,
    end: Name = None,
    limit: Annotated[int, Query(ge=1, le=MAX_LIVES)] = 100,
) -> Response:
    """Messages with their deliveries on all connections, without bodies; the newest first.

    They are kept for longer than the rows of messages: `since_ns` is when the oldest began.
    """
    first_ns = source.observed.lives.first_ns or 0
    search = LifeSearch(
        message_id=message_id,
        exchange=exchange,
        routing_key=routing_key,
        queue=queue,
        start_ns=time_ns("start", start, first_ns),
        end_ns=time_ns("end", end, first_ns),
    )
    lives = source.observed.lives
    recent, blocks = lives.recent(search), lives.history.snapshot()
    found = await asyncio.to_thread(found_in_time, recent, blocks, search, limit)
    rows = b",".join([each.to_json() for each in found.lives])
    return json_response(
        b'{"lives":[%b],"has_more":%b,"since_ns":%b}' % (rows, encoded(found.is_cut), encoded(lives.first_ns))
    )


@router.get("/sources/{source}/messages/{seq}/life")
async def show_life(source: SourceOf, seq: SeqOf) -> Response:
    """The life of the message in a row: its publish, and all of its deliveries; null if it is not known any more."""
    life = await life_of(source, row_of(source.observed.messages, seq))
    return json_response(b'{"life":%b}' % (b"null" if life is None else life.to_json()))


async def life_of(source: Source, row: MessageRow) -> LifeRecord | None:
    """Return the life of the publish or delivery in a row; `None` if it is not known."""
    record = row.message()
    if record is None or record.type not in ("publish", "deliver", "get"):
        return None
    is_delivery = record.type != "publish"
    number = record.delivery_tag if is_delivery else record.number
    if number is None:
        return None
    lives = source.observed.lives
    life = lives.linker.at(row.stream, row.channel or 0, number, row.ts_ns, is_delivery=is_delivery)
    if life is not None:
        return lives.record(life)
    search = LifeSearch(step_ns=row.ts_ns, end_ns=row.ts_ns + 1)
    found = await asyncio.to_thread(found_in_time, [], lives.history.snapshot(), search, MAX_LIVES)
    for each in found.lives:
        steps = each.deliveries if is_delivery else [each.publish] if each.publish is not None else []
        if any((step.ts_ns, step.stream) == (row.ts_ns, row.stream) and _number(step) == number for step in steps):
            return each
    return None


def _number(step: object) -> int | None:
    found = getattr(step, "number", None)
    return found if found is not None else getattr(step, "delivery_tag", None)
