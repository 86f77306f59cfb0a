"""Access by user tags: who may ask for which path, with RabbitMQ's refusals."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from amqproxy.management.failure import Failure, not_authorised

ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT = "administrator", "monitoring", "policymaker", "management"


class User(NamedTuple):
    """A user that has logged in, with its tags and the virtual hosts that it has permissions in."""

    name: str
    tags: tuple[str, ...]
    vhosts: frozenset[str]
    token: str | None = None
    """The OAuth 2 token of a user that the broker does not have."""

    @property
    def is_administrator(self) -> bool:
        return ADMINISTRATOR in self.tags

    def may_enter(self, vhost: str) -> bool:
        """Whether the user may use the paths of a virtual host, and sees its objects.

        As in RabbitMQ, administrators may, and yet need permissions for changes of queues and exchanges.
        """
        return self.is_administrator or vhost in self.vhosts

    @property
    def is_monitor(self) -> bool:
        """Whether the user sees all connections and nodes, and not only its own."""
        return bool({ADMINISTRATOR, MONITORING} & set(self.tags))

    @property
    def is_policymaker(self) -> bool:
        return bool({ADMINISTRATOR, POLICYMAKER} & set(self.tags))

    @property
    def may_manage(self) -> bool:
        """Whether the user may use the management API at all."""
        return bool({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT} & set(self.tags))


class Access(Enum):
    """Users of a path; all but `ANYONE` log in, and have a tag of management."""

    ANYONE = "anyone, without a login"
    FORM = "anyone, with the login in the body"
    MANAGEMENT = "users with a tag of management"
    VHOST = "users with permissions in the virtual host, and administrators"
    VHOST_OR_MONITOR = "users with permissions in the virtual host, and monitoring"
    VHOST_POLICYMAKER = "policymakers with permissions in the virtual host, and administrators"
    POLICYMAKER = "policymakers"
    SELF_OR_MONITOR = "the user that the path names, and monitoring"
    SELF_OR_ADMINISTRATOR = "the user that the path names, and administrators"
    MONITOR = "monitoring"
    METRICS = "monitoring, or anyone if the API is so configured"
    ADMINISTRATOR = "administrators"


OF_VHOST = (Access.VHOST, Access.VHOST_OR_MONITOR, Access.VHOST_POLICYMAKER)


def check_access(access: Access, user: User, values: Mapping[str, str], *, hides_vhosts: bool) -> None:
    """Raise a `Failure` unless the user may use a path with these `values`, whose virtual host exists.

    With `hides_vhosts`, as in RabbitMQ 4, a virtual host without permissions seems missing.
    """
    if not user.may_manage:
        raise not_authorised("Not management user")
    match access:
        case Access.MONITOR | Access.METRICS if not user.is_monitor:
            raise not_authorised("Not monitor user")
        case Access.ADMINISTRATOR if not user.is_administrator:
            raise not_authorised("Not administrator user")
        case Access.POLICYMAKER | Access.VHOST_POLICYMAKER if not user.is_policymaker:
            raise not_authorised("User not authorised to access object")
        case Access.SELF_OR_MONITOR if not user.is_monitor and values["user"] != user.name:
            raise not_authorised("User not authorised to access object")
        case Access.SELF_OR_ADMINISTRATOR if not user.is_administrator and values["user"] != user.name:
            raise not_authorised("User not authorised to access object")
        case Access.VHOST_OR_MONITOR if user.is_monitor:
            return
    vhost = values.get("vhost")
    if access in OF_VHOST and vhost is not None and not user.may_enter(vhost):
        if access is Access.VHOST_POLICYMAKER and not hides_vhosts:
            raise not_authorised("User not authorised to access object")
        raise refused_vhost(hides_vhosts=hides_vhosts)


def refused_vhost(*, hides_vhosts: bool) -> Failure:
    """Return the error for a virtual host that the user has no permissions in."""
    if hides_vhosts:
        return Failure(404, "not_found", "Not Found")
    return not_authorised("User not authorised to access virtual host")
