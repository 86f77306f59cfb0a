"""Errors as RabbitMQ's management API answers them: an HTTP status, and JSON with `error` and `reason`."""

from __future__ import annotations

from typing import Any

from amqproxy.control import RequestError

GONE = ("no-session", "not-open", "no-user", "no-vhost")
"""Errors of the broker about an object that ended or was deleted after the API had found it."""


class Failure(Exception):
    """A request that is answered with an error; `keys` are further keys of the response."""

    def __init__(self, status: int, error: str, reason: Any, **keys: Any) -> None:
        super().__init__(reason)
        self.status = status
        self.body = {"error": error, "reason": reason, **keys}


class Challenge(Failure):
    """A request without a login: clients are asked for a user and a password."""

    def __init__(self) -> None:
        super().__init__(401, "not_authorised", "Not Authorized")


class WrongPassword(Failure):
    """A login that the broker refuses; RabbitMQ 3.10 asks for another."""

    def __init__(self, *, is_4: bool) -> None:
        super().__init__(401, "not_authorized", "Not_Authorized" if is_4 else "Login failed")
        self.is_challenged = not is_4


def not_found() -> Failure:
    """Return the error for an unknown path, or for a missing object."""
    return Failure(404, "Object Not Found", "Not Found")


def not_authorised(reason: str) -> Failure:
    """Return the error for a user that may not do this."""
    return Failure(401, "not_authorised", reason)


def refusal(error: RequestError) -> Failure:
    """Return the error for what the broker refuses, or for a broker that does not answer."""
    match error.name:
        case "denied":
            return not_authorised("Access refused.")
        case name if name in GONE:
            return not_found()
        case "not-found":
            return Failure(404, "not_found", str(error))
        case "too-long":
            return Failure(413, "payload_too_large", str(error))
        case "invalid" | "malformed":
            return bad_request(str(error))
        case "failed":
            return Failure(500, "internal_error", str(error))
        case "unreachable":
            return Failure(503, "service_unavailable", "the broker does not answer")
        case _:
            return Failure(503, "service_unavailable", str(error))


def bad_request(reason: Any) -> Failure:
    """Return the error for a request that is not valid."""
    return Failure(400, "bad_request", reason)
