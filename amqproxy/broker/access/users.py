"""Users: names, password hashes in RabbitMQ's format, tags, and permissions."""

from __future__ import annotations

import binascii
import hashlib
import hmac
import secrets
from base64 import b64decode, b64encode
from collections.abc import Callable, Hashable, Iterable, Mapping
from math import inf
from typing import Any

from amqproxy.amqp091.errors import AccessRefused
from amqproxy.broker.access.limits import USER_LIMITS, check_limits
from amqproxy.broker.access.permissions import Permission, TopicPermission, check_patterns, fits
from amqproxy.broker.events import EventDispatcher
from amqproxy.rabbitmq.profile import OLDEST, Profile

ALGORITHMS: dict[str, Callable[[bytes], Any]] = {
    "rabbit_password_hashing_sha256": hashlib.sha256,
    "rabbit_password_hashing_sha512": hashlib.sha512,
    "rabbit_password_hashing_md5": hashlib.md5,
}
"""Hash functions by RabbitMQ's names of the password hashing algorithms."""

USUAL_ALGORITHM = "rabbit_password_hashing_sha256"
SALT = 4
"""Bytes of salt before a hash."""

MAX_VERDICTS = 1024

LOOPBACK_USERS = frozenset({"guest"})
"""Users that can only log in from this machine, by name as in RabbitMQ's `loopback_users`."""


def hash_password(password: str, algorithm: str = USUAL_ALGORITHM, salt: bytes | None = None) -> str:
    """Return a password hash as in definitions.json: base64 of the salt followed by the hash of salt and password."""
    salt = secrets.token_bytes(SALT) if salt is None else salt
    return b64encode(salt + ALGORITHMS[algorithm](salt + password.encode()).digest()).decode()


def _check_algorithm(name: str) -> None:
    if name not in ALGORITHMS:
        raise ValueError(f"unknown hashing algorithm '{name}'")


class LoginRefused(Exception):
    """A refused login; the text is RabbitMQ's reason and must appear only in the log."""


class User:
    """A user who may log in.

    With an empty hash, no password is accepted. `permissions` are by virtual host, `topic_permissions` by virtual host
    and exchange; `limits` are RabbitMQ's max-connections and max-channels. Change them through the methods, which
    report the change to `events` once the user belongs to a broker. `generation` rises with every change of
    permissions. `channels` is the number of channels of the user's clients, including named sessions. Refusals have the
    texts of `profile`.
    """

    events: EventDispatcher | None = None
    profile: Profile = OLDEST
    is_internal = True
    """Whether the broker has the user, rather than a token."""
    lifetime = inf
    """Seconds from the login until it ends."""

    def __init__(
        self,
        name: str,
        password_hash: str,
        hashing_algorithm: str = USUAL_ALGORITHM,
        tags: Iterable[str] = (),
    ) -> None:
        _check_algorithm(hashing_algorithm)
        self.name = name
        self.password_hash = password_hash
        self.hashing_algorithm = hashing_algorithm
        self.tags = tuple(tags)
        self.permissions: dict[str, Permission] = {}
        self.topic_permissions: dict[tuple[str, str], TopicPermission] = {}
        self.limits: dict[str, int] = {}
        self.generation = 0
        self.channels = 0
        self._verdicts: dict[tuple[str, str, str], bool] = {}

    @classmethod
    def with_password(cls, name: str, password: str, tags: Iterable[str] = ()) -> User:
        return cls(name, hash_password(password), tags=tags)

    @property
    def session_owner(self) -> Hashable:
        """Owner of the named sessions of the user's clients: only clients of an equal owner may attach to them."""
        return self.name

    @property
    def only_from_loopback(self) -> bool:
        return self.name in LOOPBACK_USERS

    def accepts(self, password: str) -> bool:
        """Whether this is the password; the hashes are compared in constant time."""
        try:
            data = b64decode(self.password_hash, validate=True)
        except binascii.Error:
            return False
        salt, expected = data[:SALT], data[SALT:]
        found = ALGORITHMS[self.hashing_algorithm](salt + password.encode("utf-8", "surrogateescape")).digest()
        return bool(expected) and hmac.compare_digest(expected, found)

    def check_origin(self, *, is_loopback: bool) -> None:
        """Raise `LoginRefused` unless the user may log in from this origin."""
        if self.only_from_loopback and not is_loopback:
            raise LoginRefused(f"user '{self.name}' can only connect via localhost")

    def renew(self, user: User) -> None:
        """Take over the permissions of the user that a new secret names: nothing, since a password has none."""

    def change_password(self, password: str) -> None:
        self.change_hash(hash_password(password))

    def change_hash(self, password_hash: str, hashing_algorithm: str = USUAL_ALGORITHM) -> None:
        """Set the password by its hash; raise `ValueError` for an unknown algorithm."""
        _check_algorithm(hashing_algorithm)
        self.hashing_algorithm = hashing_algorithm
        self.password_hash = password_hash
        self._report("user.password.changed")

    def set_tags(self, tags: Iterable[str]) -> None:
        self.tags = tuple(tags)
        self._report("user.tags.set")

    def set_limits(self, limits: Mapping[str, int]) -> None:
        """Replace the limits of the user; raise `ValueError` if they are invalid."""
        check_limits(limits, USER_LIMITS)
        self.limits = dict(limits)
        self._report("user.limits.set")

    def permit(self, vhost: str, permission: Permission | None) -> None:
        """Set, or with `None` remove, the permission in a virtual host; raise `ValueError` for an invalid pattern."""
        if permission is not None:
            check_patterns(permission)
        self._verdicts.clear()
        self.generation += 1
        if permission is not None:
            self.permissions[vhost] = permission
            self._report("permission.created", vhost)
        elif self.permissions.pop(vhost, None) is not None:
            self._report("permission.deleted", vhost)

    def permit_topic(self, vhost: str, exchange: str, permission: TopicPermission | None) -> None:
        """Set, or with `None` remove, the permission for routing keys of a topic exchange; raise like `permit`."""
        if permission is not None:
            check_patterns(permission)
        self.generation += 1
        if permission is not None:
            self.topic_permissions[vhost, exchange] = permission
            self._report("topic.permission.created", vhost, exchange=exchange)
        elif self.topic_permissions.pop((vhost, exchange), None) is not None:
            self._report("topic.permission.deleted", vhost, exchange=exchange)

    def _report(self, name: str, vhost: str = "", **details: str) -> None:
        if self.events is not None:
            self.events.report(name, vhost, self, **details)

    def may(self, vhost: str, operation: str, name: str) -> bool:
        """Whether the user's permission allows the operation on a name."""
        key = (vhost, operation, name)
        verdict = self._verdicts.get(key)
        if verdict is None:
            verdict = self._is_permitted(vhost, operation, name)
            if len(self._verdicts) >= MAX_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    def _is_permitted(self, vhost: str, operation: str, name: str) -> bool:
        permission = self.permissions.get(vhost)
        return permission is not None and fits(getattr(permission, operation), name)

    def may_enter(self, vhost: str) -> bool:
        """Whether the user has any permission in a virtual host."""
        return vhost in self.permissions

    def may_use_topic(self, vhost: str, operation: str, exchange: str, routing_key: str) -> bool:
        """Whether the user may use a routing key on a topic exchange; true if no topic permission is set for it."""
        permission = self.topic_permissions.get((vhost, exchange))
        if permission is None:
            return True
        pattern: str = getattr(permission, operation)
        return fits(pattern.replace("{username}", self.name).replace("{vhost}", vhost), routing_key)

    def check(self, vhost: str, operation: str, kind: str, name: str) -> None:
        """Raise 403 without permission; `operation` is CONFIGURE, WRITE or READ, `kind` "queue" or "exchange"."""
        if kind == "exchange" and not name:
            name = "amq.default"
        if not self.may(vhost, operation, name):
            raise AccessRefused(
                f"{self._access(operation)} to {kind} '{name}' in vhost '{vhost}' refused for user '{self.name}'"
            )

    def _access(self, operation: str) -> str:
        return f"{operation} access" if self.profile.names_operation else "access"

    def check_topic(self, vhost: str, operation: str, exchange: str, routing_key: str) -> None:
        """Raise 403 unless the user may use this routing key on a topic exchange."""
        if self.topic_permissions and not self.may_use_topic(vhost, operation, exchange, routing_key):
            raise self._topic_refused(vhost, operation, exchange, routing_key)

    def _topic_refused(self, vhost: str, operation: str, exchange: str, routing_key: str) -> AccessRefused:
        return AccessRefused(
            f"{self._access(operation)} to topic '{routing_key}' in exchange '{exchange}' in vhost '{vhost}' "
            f"refused for user '{self.name}'"
        )
