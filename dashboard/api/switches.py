"""Switches of clients and messages between a proxy's upstreams."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import APIRouter, Response
from fastapi import Path as PathParameter

from amqproxy.dashboard.api.control import ActorOf, asked
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response

router = APIRouter(tags=["switches"])

Name = Annotated[str, PathParameter(max_length=200)]


@router.get("/sources/{source}/switches")
async def list_switches(source: SourceOf) -> Response:
    """The switches, and what is still on its way."""
    return json_response(await asked(source, "switches"))


@router.get("/sources/{source}/switches/{switch}/queues")
async def list_switch_queues(source: SourceOf, switch: Name) -> Response:
    """The queues of a switch, with the messages moved and left in the latest move."""
    return json_response(await asked(source, "switches-queues", switch=switch))


@router.post("/sources/{source}/switches/{switch}/{change}")
async def change_switch(
    source: SourceOf, switch: Name, change: Literal["back", "forth", "settle", "forget"], actor: ActorOf
) -> Response:
    """Lead a switch back, or forth again; end its move; forget it."""
    return json_response(await actor.does(source, f"switches-{change}", switch=switch))
