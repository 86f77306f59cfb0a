"""The integrated broker behind the proxy, if there is one: its queues, connections and messages."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Response

from amqproxy.dashboard.api.control import asked
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response

router = APIRouter(tags=["broker"])

Name = Annotated[str, Query(max_length=1000)]


@router.get("/sources/{source}/broker/queues")
async def list_queues(source: SourceOf, vhost: Annotated[str | None, Query(max_length=1000)] = None) -> Response:
    """The queues."""
    return json_response(await asked(source, "broker-queues", vhost=vhost))


@router.get("/sources/{source}/broker/connections")
async def list_broker_connections(source: SourceOf) -> Response:
    """The connections, as the broker sees them."""
    return json_response(await asked(source, "broker-connections"))


@router.get("/sources/{source}/broker/messages")
async def list_broker_messages(
    source: SourceOf,
    queue: Name,
    vhost: Name = "/",
    skip: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    count: Annotated[int, Query(ge=1, le=1000)] = 50,
    body: Annotated[int, Query(ge=0, le=1 << 20)] = 1024,
) -> Response:
    """Messages of a queue, from its head; they stay there."""
    keys = {"queue": queue, "vhost": vhost, "skip": skip, "count": count, "body": body}
    return json_response(await asked(source, "broker-messages", **keys))
