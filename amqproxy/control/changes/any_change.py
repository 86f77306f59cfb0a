"""All changes that the management API makes, and how the broker's refusals are told."""

from __future__ import annotations

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.control.changes.access_changes import (
    Answer,
    DeletePermission,
    DeleteTopicPermissions,
    DeleteUser,
    DeleteVhost,
    PutPermission,
    PutTopicPermission,
    PutUser,
    PutUserLimit,
    PutVhost,
    PutVhostLimit,
)
from amqproxy.control.changes.actor import Actor
from amqproxy.control.changes.definition_changes import ImportDefinitions
from amqproxy.control.changes.message_changes import Get, Publish
from amqproxy.control.changes.policy_changes import (
    DeleteGlobalParameter,
    DeleteParameter,
    DeletePolicy,
    PutGlobalParameter,
    PutParameter,
    PutPolicy,
    RestartShovel,
)
from amqproxy.control.changes.topology_changes import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeleteQueue,
    PurgeQueue,
    Unbind,
)
from amqproxy.control.request_error import RequestError

AnyChange = (
    PutVhost
    | DeleteVhost
    | PutUser
    | DeleteUser
    | PutPermission
    | DeletePermission
    | PutTopicPermission
    | DeleteTopicPermissions
    | PutVhostLimit
    | PutUserLimit
    | DeclareQueue
    | DeleteQueue
    | PurgeQueue
    | DeclareExchange
    | DeleteExchange
    | Bind
    | Unbind
    | PutPolicy
    | DeletePolicy
    | PutParameter
    | DeleteParameter
    | RestartShovel
    | PutGlobalParameter
    | DeleteGlobalParameter
    | Publish
    | Get
    | ImportDefinitions
)

NAMES = {403: "denied", 404: "not-found"}
"""Names of errors by reply code; that of any other is `invalid`."""


def applied(change: AnyChange, actor: Actor) -> Answer:
    """Make a change and return the response; `RequestError` with the broker's text if it is refused."""
    try:
        return change.apply(actor)
    except ProtocolError as error:
        raise RequestError(NAMES.get(error.code, "invalid"), error.text) from None
    except RecursionError:
        raise RequestError("invalid", "an object is nested too deeply") from None
    except ValueError as error:
        raise RequestError("invalid", str(error)) from None
