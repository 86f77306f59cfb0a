"""One request to the API, with what it may use to answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from amqproxy.management.access import User
from amqproxy.management.broker_source import BrokerFacts, BrokerSource
from amqproxy.management.failure import bad_request, not_found
from amqproxy.management.listing import list_query
from amqproxy.management.login import LoginAttempts
from amqproxy.management.settings import Settings
from amqproxy.management.statistics.figures import Figures, wanted_details
from amqproxy.management.statistics.history import History
from amqproxy.management.statistics.ranges import Ranges, ranges_of

Entry = dict[str, Any]

ERLANG_LINE = 80

MOST_OF_VALUE = 128 * 1024
"""Maximum size in bytes of a parameter's value."""


class Done(NamedTuple):
    """The answer to a change: created (201) or made (204), perhaps with the place of what was created."""

    status: int = 204
    location: str | None = None


def put(answer: Entry) -> Done:
    """Return the answer to PUT by that of the broker."""
    return Done(201 if answer.get("new") else 204)


def deleted(answer: Entry) -> Done:
    """Return the answer to DELETE by that of the broker; `Failure` with 404 if there was nothing to delete."""
    if not answer["found"]:
        raise not_found()
    return Done()


class Call(NamedTuple):
    """A request by a user that may make it; `values` are the variable segments of its path."""

    values: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    reason: str
    user: User
    broker: BrokerSource
    facts: BrokerFacts
    settings: Settings
    history: History
    attempts: LoginAttempts
    asked: Sequence[tuple[str, str]] = ()
    """All parameters of the query, of which `query` has the last of each name."""

    @property
    def figures(self) -> Figures:
        """The broker's statistics, in the ranges and columns that the query asks for: one object for a whole list."""
        return Figures(self.history, ranges_of(self.query), self._details)

    @property
    def figures_of_columns(self) -> Figures:
        """Statistics for lists in which RabbitMQ ignores ranges that no column needs; its error for others differs."""
        details = self._details
        needs_any = details is None or details
        ranges = ranges_of(self.query, "invalid_range_parameters") if needs_any else Ranges()
        return Figures(self.history, ranges, details)

    @property
    def _details(self) -> frozenset[str] | None:
        query = list_query(self.query, has_pages=False)
        return wanted_details(query.columns, query.sort)

    def all_of(self, name: str) -> set[str]:
        """Return all values of a parameter of the query."""
        return {value for key, value in self.asked if key == name}

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query is `true`."""
        return self.query.get(name) == "true"

    def sees(self, vhost: str) -> bool:
        """Whether lists over all virtual hosts show the user this one's objects."""
        return self.user.may_enter(vhost)

    async def one(self, kind: str, name: str, vhost: str | None = None) -> Entry:
        """Return the broker's object of a name; `Failure` with 404 without one."""
        found = await self.broker.object(kind, vhost, name)
        if found is None:
            raise not_found()
        return found

    async def change(self, change: str, **keys: Any) -> Entry:
        """Ask the broker for a change on behalf of the user; keys whose value is None are left out."""
        given = {name: value for name, value in keys.items() if value is not None}
        for name in ("arguments", "properties", "definition"):
            if name in given:
                self.check_size(name, given[name], self.facts["frame_max"])
        token = {} if self.user.token is None else {"token": self.user.token}
        asked = {"change": change, **given}
        try:
            return await self.broker.ask("broker-change", user=self.user.name, change=asked, **token)
        finally:
            self.broker.forget()

    def check_size(self, name: str, value: Any, most: int = MOST_OF_VALUE) -> None:
        """Raise a `Failure` for a value of more than `most` bytes, if not 0, as one that no frame could hold."""
        try:
            size = len(msgspec.json.encode(value))
        except RecursionError:
            raise bad_request(f"{name}: nested too deeply") from None
        if 0 < most < size:
            raise bad_request(f"{name}: {size} bytes, and {most} are the most")

    def json(self, fault: str = "not_json") -> Entry:
        """Return the object in the body, empty without a body or for `null`; `Failure` with 400 for anything else."""
        if not self.body:
            return {}
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any] | None) or {}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_request(fault) from None

    def required(self, *names: str) -> Entry:
        """Return the object in the body; `Failure` with 400 that names the missing keys."""
        body = self.json()
        missing = [f"{{key_missing,{name}}}" for name in names if name not in body]
        if missing:
            line = f"[{','.join(missing)}]"
            # Erlang breaks lines of 80 characters.
            raise bad_request(line if len(line) < ERLANG_LINE else f"[{f',{chr(10)} '.join(missing)}]")
        return body

    def boolean(self, body: Entry, name: str, usual: bool) -> bool:
        """Return a flag in the body, which may be a text as in RabbitMQ."""
        value = body.get(name, usual)
        found = {"true": True, "false": False}.get(value, value) if isinstance(value, str) else value
        if not isinstance(found, bool):
            raise bad_request(["not_boolean", value])
        return found

    def mapping(self, body: Entry, name: str) -> Entry:
        """Return an object in the body, empty if it is missing; an empty list is RabbitMQ's other form of one."""
        value = body.get(name) or {}
        if not isinstance(value, dict):
            raise bad_request(f"{name} is not an object")
        return value
