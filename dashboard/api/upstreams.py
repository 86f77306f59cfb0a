"""Members of a proxy's upstreams, and changes to them."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Response
from fastapi import Path as PathParameter
from pydantic import Field

from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.control import ActorOf, asked
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response

router = APIRouter(tags=["upstreams"])

Name = Annotated[str, PathParameter(max_length=300)]


class RateBody(Body):
    """How many clients a second are told to reconnect."""

    rate: Annotated[float, Field(ge=0, le=10_000)] = 0.0


class EjectBody(Body):
    """For how many seconds a member takes no new clients."""

    seconds: Annotated[float, Field(gt=0, le=86_400)] = 300.0


class WeightBody(Body):
    """A member's share of new clients, in proportion to the others' weights."""

    weight: Annotated[int, Field(ge=0, le=1000)]


class RebalanceBody(Body):
    """How many clients a second are told to reconnect."""

    rate: Annotated[float, Field(gt=0, le=10_000)] = 50.0


MEMBER = "/sources/{source}/upstreams/{upstream}/members/{member}"


@router.get("/sources/{source}/upstreams")
async def list_members(source: SourceOf) -> Response:
    """The members of all upstreams, with their state and their counts."""
    return json_response(await asked(source, "upstreams"))


@router.get("/sources/{source}/pools")
async def list_pools(source: SourceOf) -> Response:
    """The pools of connections that clients share."""
    return json_response(await asked(source, "pools"))


@router.post(f"{MEMBER}/drain")
async def drain_member(source: SourceOf, upstream: Name, member: Name, actor: ActorOf, body: RateBody) -> Response:
    """Let a member take no new clients; its present ones stay, or move at a rate."""
    answer = await actor.does(source, "upstreams-drain", upstream=upstream, member=member, rate=body.rate)
    return json_response(answer)


@router.post(f"{MEMBER}/eject")
async def eject_member(source: SourceOf, upstream: Name, member: Name, actor: ActorOf, body: EjectBody) -> Response:
    """Leave a member out for some time; its present clients stay."""
    answer = await actor.does(source, "upstreams-eject", upstream=upstream, member=member, seconds=body.seconds)
    return json_response(answer)


@router.post(f"{MEMBER}/restore")
async def restore_member(source: SourceOf, upstream: Name, member: Name, actor: ActorOf) -> Response:
    """End the drain or the ejection of a member."""
    return json_response(await actor.does(source, "upstreams-restore", upstream=upstream, member=member))


@router.post(f"{MEMBER}/weight")
async def weigh_member(source: SourceOf, upstream: Name, member: Name, actor: ActorOf, body: WeightBody) -> Response:
    """Set a member's weight, until the config has another one or the proxy ends."""
    answer = await actor.does(source, "upstreams-weight", upstream=upstream, member=member, weight=body.weight)
    return json_response(answer)


@router.post("/sources/{source}/upstreams/{upstream}/rebalance")
async def rebalance(source: SourceOf, upstream: Name, actor: ActorOf, body: RebalanceBody) -> Response:
    """Tell clients of members that have more than their share to reconnect."""
    return json_response(await actor.does(source, "upstreams-rebalance", upstream=upstream, rate=body.rate))
