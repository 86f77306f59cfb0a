"""Changes of virtual hosts, users, their permissions and their limits."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.users import USUAL_ALGORITHM, hash_password
from amqproxy.broker.broker import EVERYTHING
from amqproxy.control.changes.actor import Actor

Answer = dict[str, Any]


class Change(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, tag_field="change"):
    """The base of all changes."""

    def apply(self, actor: Actor) -> Answer:
        """Make the change, and return whether it is `new` where that is of interest."""
        raise NotImplementedError


class PutVhost(Change, frozen=True, tag="put-vhost"):
    """Create a virtual host, in which the user then may do everything, or describe it anew."""

    name: str
    description: str | None = None
    tags: tuple[str, ...] | None = None
    tracing: bool | None = None
    default_queue_type: str | None = None
    is_protected: bool | None = None
    """Whether the virtual host may not be deleted, which the management API observes."""

    def apply(self, actor: Actor) -> Answer:
        is_new = self.name not in actor.broker.vhosts
        vhost = actor.broker.add_vhost(self.name)
        if self.default_queue_type is not None:
            vhost.metadata["default_queue_type"] = self.default_queue_type
            vhost.describe(vhost.description, vhost.tags)
        if self.is_protected is not None:
            vhost.metadata["protected_from_deletion"] = self.is_protected
            vhost.describe(vhost.description, vhost.tags)
        if self.description is not None or self.tags is not None or is_new:
            vhost.describe(self.description or "", self.tags or ())
        if self.tracing is not None:
            vhost.trace(self.tracing)
        if is_new:
            actor.user.permit(self.name, EVERYTHING)
        return {"new": is_new}


class DeleteVhost(Change, frozen=True, tag="delete-vhost"):
    """Delete a virtual host with its contents, and close the connections to it."""

    name: str

    def apply(self, actor: Actor) -> Answer:
        return {"found": actor.broker.delete_vhost(self.name, actor.now)}


class PutUser(Change, frozen=True, tag="put-user"):
    """Create a user, or change its tags and its password, which is given itself or hashed; "" lets nobody log in.

    Without a password and a hash, an existing user keeps its password, and a new one cannot log in.
    """

    name: str
    tags: tuple[str, ...]
    password: str | None = None
    password_hash: str | None = None
    hashing_algorithm: str = USUAL_ALGORITHM

    def apply(self, actor: Actor) -> Answer:
        algorithm = USUAL_ALGORITHM if self.password is not None else self.hashing_algorithm
        hashed = self.password_hash if self.password is None else hash_password(self.password)
        old = actor.broker.users.get(self.name)
        if hashed is None and old is not None:
            old.set_tags(self.tags)
            return {"new": False}
        return {"new": actor.broker.put_user(self.name, hashed or "", algorithm, self.tags)}


class DeleteUser(Change, frozen=True, tag="delete-user"):
    """Delete a user, and close its connections."""

    name: str

    def apply(self, actor: Actor) -> Answer:
        return {"found": actor.broker.delete_user(self.name, actor.now)}


class PutPermission(Change, frozen=True, tag="put-permission"):
    """Set a user's permissions in a virtual host."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str

    def apply(self, actor: Actor) -> Answer:
        actor.vhost(self.vhost)
        user = actor.other(self.user)
        is_new = self.vhost not in user.permissions
        user.permit(self.vhost, Permission(self.configure, self.write, self.read))
        return {"new": is_new}


class DeletePermission(Change, frozen=True, tag="delete-permission"):
    """Remove a user's permissions in a virtual host."""

    user: str
    vhost: str

    def apply(self, actor: Actor) -> Answer:
        user = actor.broker.users.get(self.user)
        if user is None or self.vhost not in user.permissions:
            return {"found": False}
        user.permit(self.vhost, None)
        return {"found": True}


class PutTopicPermission(Change, frozen=True, tag="put-topic-permission"):
    """Set a user's permissions for the routing keys of a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str

    def apply(self, actor: Actor) -> Answer:
        actor.vhost(self.vhost)
        user = actor.other(self.user)
        is_new = not any(vhost == self.vhost for vhost, _ in user.topic_permissions)
        user.permit_topic(self.vhost, self.exchange, TopicPermission(self.write, self.read))
        return {"new": is_new}


class DeleteTopicPermissions(Change, frozen=True, tag="delete-topic-permissions"):
    """Remove a user's permissions for all topic exchanges of a virtual host, or for one `exchange`.

    As in RabbitMQ, they count as found if the user has any in the virtual host.
    """

    user: str
    vhost: str
    exchange: str | None = None

    def apply(self, actor: Actor) -> Answer:
        user = actor.broker.users.get(self.user)
        exchanges = [each for each in user.topic_permissions if each[0] == self.vhost] if user is not None else []
        for place in exchanges:
            assert user is not None
            if self.exchange in (None, place[1]):
                user.permit_topic(*place, None)
        return {"found": bool(exchanges)}


class PutVhostLimit(Change, frozen=True, tag="put-vhost-limit"):
    """Set a limit of a virtual host; None removes it."""

    vhost: str
    name: str
    value: Any = None

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        others = {name: value for name, value in vhost.limits.items() if name != self.name}
        vhost.set_limits(others if self.value is None else {**others, self.name: self.value})
        return {}


class PutUserLimit(Change, frozen=True, tag="put-user-limit"):
    """Set a limit of a user; None removes it."""

    user: str
    name: str
    value: Any = None

    def apply(self, actor: Actor) -> Answer:
        user = actor.other(self.user)
        others = {name: value for name, value in user.limits.items() if name != self.name}
        user.set_limits(others if self.value is None else {**others, self.name: self.value})
        return {}
