"""Logins: the attempts so far, a login by form, and password hashes."""

from __future__ import annotations

import hashlib
import secrets
from base64 import b64encode

from amqproxy.management.call import Call, Done, Entry
from amqproxy.management.failure import not_found
from amqproxy.management.login import form_credentials

SALT = 4
"""Bytes of salt in a password hash, as in RabbitMQ."""


async def settings(call: Call) -> Entry:
    """Return RabbitMQ's answer without OAuth 2 on its page, which does not exist here."""
    return {"enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


async def attempts(call: Call) -> list[Entry]:
    """Return the logins at this API since its start, or since they were reset."""
    _check_node(call)
    counts = call.attempts
    total = counts.succeeded + counts.failed
    return [
        {
            "protocol": "http",
            "auth_attempts": total,
            "auth_attempts_failed": counts.failed,
            "auth_attempts_succeeded": counts.succeeded,
        }
    ]


async def attempts_by_source(call: Call) -> list[Entry]:
    """Return no attempts by address, which RabbitMQ counts only where its configuration says so."""
    _check_node(call)
    return []


async def reset_attempts(call: Call) -> Done:
    _check_node(call)
    call.attempts.reset()
    return Done()


async def reset_sources(call: Call) -> Done:
    _check_node(call)
    return Done()


def _check_node(call: Call) -> None:
    if call.values["node"] != call.facts.node:
        raise not_found()


async def hash_password(call: Call) -> Entry:
    """Return a password's hash, as definitions have it: base64 of the salt, and of SHA-256 of salt and password."""
    salt = secrets.token_bytes(SALT)
    digest = hashlib.sha256(salt + call.values["password"].encode()).digest()
    return {"ok": b64encode(salt + digest).decode()}


async def log_in(call: Call) -> Entry:
    """Return the user that logged in by form, and what it may send as Basic authentication."""
    _, password, _ = form_credentials(call.body) or ("", "", False)
    user = call.user.name  # of a token, the name that it has
    return {
        "user": {"name": call.user.name, "tags": list(call.user.tags), "is_internal_user": call.user.token is None},
        "token": {"type": "basic", "value": b64encode(f"{user}:{password}".encode()).decode()},
    }
