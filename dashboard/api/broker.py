"""The integrated broker behind the proxy, if there is one: its objects, and the messages that wait in a queue."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from amqproxy.control.proxy_requests import ProxyRequests
from amqproxy.control.request import QueueSort
from amqproxy.dashboard.api.control import asked, told_problems, understanding
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.broker_objects import first_of, object_page, pieces_of, queue_page, reach_of
from amqproxy.dashboard.policy_reach import trial_of
from amqproxy.dashboard.problem import Problem
from amqproxy.dashboard.reach_turns import ReachTurns
from amqproxy.dashboard.source import Source

router = APIRouter(tags=["broker"])

MOST_SHOWN = 500
"""Maximum number of objects on a page."""

MOST_OF_QUEUE = 200
"""Maximum number of a queue's bindings, and of its consumers, that are shown with it."""

LISTED = "broker-objects"

Name = Annotated[str, Query(max_length=1000)]
OptionalName = Annotated[str | None, Query(max_length=1000)]
Offset = Annotated[int, Query(ge=0, le=10_000_000)]
Count = Annotated[int, Query(ge=1, le=MOST_SHOWN)]

Kind = Literal[
    "vhosts",
    "users",
    "permissions",
    "topic-permissions",
    "exchanges",
    "bindings",
    "source-bindings",
    "exchange-bindings",
    "queue-bindings",
    "policies",
    "operator-policies",
]


def objects_of(source: Source) -> ProxyRequests:
    """Return the client of a source that lists a broker's objects; `Problem` for any other."""
    return understanding(source, LISTED)


@router.get("/sources/{source}/broker/facts")
async def show_broker(source: SourceOf) -> Response:
    """The broker's version, exchange types, memory, alarms and resources."""
    return json_response(await asked(source, "broker"))


@router.get("/sources/{source}/broker/queues")
async def list_queues(source: SourceOf, vhost: OptionalName = None) -> Response:
    """The queues."""
    return json_response(await asked(source, "broker-queues", vhost=vhost))


@router.get("/sources/{source}/broker/queues/page")
async def show_queue_page(
    source: SourceOf,
    vhost: OptionalName = None,
    name: Name = "",
    sort: QueueSort = "name",
    reverse: bool = False,
    offset: Offset = 0,
    count: Count = 50,
) -> Response:
    """A page of the queues, sorted and selected by a part of their names in the broker.

    `entered` and `left` count messages since the broker's start, so that a rate is the difference of two responses.
    """
    page = {"sort": sort, "reverse": reverse, "name": name, "offset": offset, "count": count}
    with told_problems():
        return json_response(await queue_page(objects_of(source), vhost, page))


@router.get("/sources/{source}/broker/queue")
async def show_queue(source: SourceOf, name: Name, vhost: Name = "/") -> Response:
    """One queue, with its first bindings and consumers, and the policies that apply to it."""
    requests = objects_of(source)

    async def named(kind: str, policy: str | None) -> dict[str, Any] | None:
        return None if policy is None else await first_of(pieces_of(requests, kind, vhost, policy))

    with told_problems():
        queue = await first_of(pieces_of(requests, "queues", vhost, name))
        if queue is None:
            raise Problem(404, f"there is no queue {name!r} in the virtual host {vhost!r}")
        bindings = await object_page(
            pieces_of(requests, "queue-bindings", vhost, name), lambda each: True, 0, MOST_OF_QUEUE
        )
        consumers = await object_page(
            pieces_of(requests, "consumers", vhost, name), lambda each: each["queue"] == name, 0, MOST_OF_QUEUE
        )
        policies = {
            "policy": await named("policies", queue["policy"]),
            "operator_policy": await named("operator-policies", queue["operator_policy"]),
        }
    return json_response({"queue": queue, "bindings": bindings, "consumers": consumers, "policies": policies})


@router.get("/sources/{source}/broker/objects")
async def list_objects(
    source: SourceOf,
    kind: Kind,
    vhost: OptionalName = None,
    name: OptionalName = None,
    words: Name = "",
    offset: Offset = 0,
    count: Count = 100,
) -> Response:
    """A page of the broker's objects of a kind, of one virtual host or name, or with some words in their texts."""
    wanted = words.lower().split()

    def is_chosen(entry: dict[str, Any]) -> bool:
        text = " ".join(each for each in entry.values() if isinstance(each, str)).lower() if wanted else ""
        return all(each in text for each in wanted)

    with told_problems():
        return json_response(
            await object_page(pieces_of(objects_of(source), kind, vhost, name), is_chosen, offset, count)
        )


@router.get("/sources/{source}/broker/policies/reach")
async def show_policy_reach(
    request: Request,
    source: SourceOf,
    name: Name,
    pattern: Name,
    vhost: Name = "/",
    apply_to: Literal["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"] = "all",
    priority: Annotated[int, Query(ge=-(2**31), lt=2**31)] = 0,
    is_operator: bool = False,
) -> Response:
    """The queues and exchanges that a policy would apply to, newly or still, and those where another one does."""
    entry = {"name": name, "pattern": pattern, "apply-to": apply_to, "priority": priority}
    try:
        trial = trial_of(entry, is_operator=is_operator)
    except ValueError as error:
        raise Problem(400, f"pattern: {error}") from None
    turns = request.app.state.reach_turns
    assert isinstance(turns, ReachTurns)
    async with turns.turn(request.client.host if request.client else ""):
        with told_problems():
            reach = await reach_of(objects_of(source), vhost, trial, request.is_disconnected)
    if reach is None:
        raise Problem(409, "the client is gone")
    return json_response(reach)


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
