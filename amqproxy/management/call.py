"""One request to the API, with what it may use to answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from amqproxy.management.access import User
from amqproxy.management.broker_source import BrokerFacts, BrokerSource
from amqproxy.management.failure import bad_request, not_found
from amqproxy.management.settings import Settings

Entry = dict[str, Any]


class Call(NamedTuple):
    """A request by a user that may make it; `values` are the variable segments of its path."""

    values: Mapping[str, str]
    query: Mapping[str, str]
    body: bytes
    user: User
    broker: BrokerSource
    facts: BrokerFacts
    settings: Settings

    def flag(self, name: str) -> bool:
        """Whether a parameter of the query is `true`."""
        return self.query.get(name) == "true"

    def sees(self, vhost: str) -> bool:
        """Whether lists over all virtual hosts show the user this one's objects."""
        return vhost in self.user.vhosts

    async def one(self, kind: str, name: str, vhost: str | None = None) -> Entry:
        """Return the broker's object of a name; `Failure` with 404 without one."""
        found = await self.broker.object(kind, vhost, name)
        if found is None:
            raise not_found()
        return found

    def json(self) -> Any:
        """Return the decoded body; `Failure` with 400 if it is not JSON."""
        try:
            return msgspec.json.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise bad_request("Not a JSON") from None
