"""Import of definitions, in parts of bounded work."""

from __future__ import annotations

from typing import Any

from amqproxy.broker.definitions import definitions_json
from amqproxy.control.changes.access_changes import Answer, Change
from amqproxy.control.changes.actor import Actor


class ImportDefinitions(Change, frozen=True, tag="import"):
    """Create the objects of a part of a definitions.json; with `vhost`, only objects in it.

    `first` is the number of the first entry in its section.
    """

    definitions: dict[str, Any]
    vhost: str | None = None
    first: int = 0

    def apply(self, actor: Actor) -> Answer:
        broker, now = actor.broker, actor.now
        return {
            "warnings": definitions_json.load(
                broker, self.definitions, now, self.vhost, first=self.first, refuses_unsupported=True
            )
        }
