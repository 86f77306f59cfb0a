"""Changes of the integrated broker, on behalf of one of its users and within that user's permissions."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from fastapi import APIRouter, Request, Response
from pydantic import Field

from amqproxy.dashboard.api.actions import Body
from amqproxy.dashboard.api.broker_login import BrokerLoginOf, checked_user
from amqproxy.dashboard.api.control import ActorOf, told_problems, understanding
from amqproxy.dashboard.api.dependencies import SourceOf
from amqproxy.dashboard.api.responses import json_response
from amqproxy.dashboard.problem import Problem

router = APIRouter(tags=["broker"])

Name = Annotated[str, Field(max_length=1000)]
Table = Annotated[dict[str, Any], Field(default_factory=dict)]

LOGGED = frozenset({"vhost", "name", "user", "destination", "exchange", "routing_key"})
"""Keys of changes that are logged; none holds a message or a password."""

ADMINISTRATOR, POLICYMAKER = "administrator", "policymaker"


class ChangeBody(Body):
    """Base of all changes: the user `needs` one of these tags, besides its permissions."""

    needs: ClassVar[tuple[str, ...]] = ()


class OfVhost(ChangeBody):
    """A change within a virtual host."""

    vhost: Name = "/"


class DeclareQueue(OfVhost):
    """Declare a queue."""

    change: Literal["declare-queue"]
    name: Name
    durable: bool = True
    auto_delete: bool = False
    arguments: Table


class DeleteQueue(OfVhost):
    """Delete a queue with its messages, perhaps only if it has no consumers or no messages."""

    change: Literal["delete-queue"]
    name: Name
    if_unused: bool = False
    if_empty: bool = False


class PurgeQueue(OfVhost):
    """Drop the messages that wait in a queue."""

    change: Literal["purge-queue"]
    name: Name


class DeclareExchange(OfVhost):
    """Declare an exchange."""

    change: Literal["declare-exchange"]
    name: Name
    type: Name = "direct"
    durable: bool = True
    auto_delete: bool = False
    internal: bool = False
    arguments: Table


class DeleteExchange(OfVhost):
    """Delete an exchange, perhaps only if nothing is bound to it."""

    change: Literal["delete-exchange"]
    name: Name
    if_unused: bool = False


class Bind(OfVhost):
    """Bind a queue or an exchange to an exchange."""

    change: Literal["bind"]
    source: Name
    destination_type: Literal["queue", "exchange"] = "queue"
    destination: Name
    routing_key: Name = ""
    arguments: Table


class Unbind(OfVhost):
    """Remove a binding, by its `properties_key`."""

    change: Literal["unbind"]
    source: Name
    destination_type: Literal["queue", "exchange"] = "queue"
    destination: Name
    properties_key: Annotated[str, Field(max_length=10_000)]


class Publish(OfVhost):
    """Publish a message, whose `body` is in base64; the response says whether a queue got it."""

    change: Literal["publish"]
    exchange: Name = ""
    routing_key: Name
    body: Annotated[str, Field(max_length=4 << 20)]
    properties: Table


class PutPolicy(OfVhost):
    """Set a policy, or an operator's."""

    needs = (ADMINISTRATOR, POLICYMAKER)
    change: Literal["put-policy"]
    name: Name
    pattern: Name
    definition: dict[str, Any]
    priority: Annotated[int, Field(ge=-(2**31), lt=2**31)] = 0
    apply_to: Name = "all"
    is_operator: bool = False


class DeletePolicy(OfVhost):
    """Remove a policy, or an operator's."""

    needs = (ADMINISTRATOR, POLICYMAKER)
    change: Literal["delete-policy"]
    name: Name
    is_operator: bool = False


class PutUser(ChangeBody):
    """Create a user, or change its tags, and its password if one is given."""

    needs = (ADMINISTRATOR,)
    change: Literal["put-user"]
    name: Annotated[str, Field(min_length=1, max_length=1000)]
    tags: Annotated[list[Name], Field(max_length=100, default_factory=list)]
    password: Annotated[str, Field(min_length=1, max_length=4096)] | None = None


class DeleteUser(ChangeBody):
    """Delete a user, and close its connections."""

    needs = (ADMINISTRATOR,)
    change: Literal["delete-user"]
    name: Name


class PutPermission(OfVhost):
    """Set a user's permissions in a virtual host, as regular expressions of names."""

    needs = (ADMINISTRATOR,)
    change: Literal["put-permission"]
    user: Name
    configure: Name
    write: Name
    read: Name


class DeletePermission(OfVhost):
    """Remove a user's permissions in a virtual host."""

    needs = (ADMINISTRATOR,)
    change: Literal["delete-permission"]
    user: Name


AnyChange = Annotated[
    DeclareQueue
    | DeleteQueue
    | PurgeQueue
    | DeclareExchange
    | DeleteExchange
    | Bind
    | Unbind
    | Publish
    | PutPolicy
    | DeletePolicy
    | PutUser
    | DeleteUser
    | PutPermission
    | DeletePermission,
    Field(discriminator="change"),
]


@router.post("/sources/{source}/broker/changes")
async def change_broker(
    request: Request, source: SourceOf, actor: ActorOf, login: BrokerLoginOf, body: AnyChange
) -> Response:
    """Make a change with the broker's user of this browser; the response comes once it is on disk."""
    requests = understanding(source, "broker-change")
    vhost = getattr(body, "vhost", None)
    change = body.model_dump(exclude_none=True)
    outcome = "refused"
    try:
        user = await checked_user(request, source, login, vhost)
        _check(body, user, vhost)
        with told_problems():
            answer = await requests.ask("broker-change", user=user["name"], change=change)
        outcome = "done"
        if answer.get("found") is False:
            outcome = "not found"
            raise Problem(404, "it is not there any more", error="not-found")
    finally:
        named = {f"of_{key}" if key == "user" else key: value for key, value in change.items() if key in LOGGED}
        actor.log(f"broker-{body.change}", source, outcome, user=login.user, **named)
    return json_response({name: value for name, value in answer.items() if name != "ok"})


def _check(body: ChangeBody, user: dict[str, Any], vhost: str | None) -> None:
    """Raise a `Problem` if the user's tags or virtual hosts do not allow a change, as the management API does."""
    tags = set(user["tags"])
    needed = (ADMINISTRATOR,) if getattr(body, "is_operator", False) else body.needs
    if needed and not tags.intersection(needed):
        raise Problem(403, f"the broker's user {user['name']} needs the tag {' or '.join(needed)}", error="denied")
    if vhost is not None and not user["has_vhost"]:
        raise Problem(404, f"there is no virtual host {vhost!r}", error="no-vhost")
    if needed and vhost is not None and vhost not in user["vhosts"] and ADMINISTRATOR not in tags:
        raise Problem(403, f"the broker's user {user['name']} has no permissions in {vhost!r}", error="denied")
