"""Import of definitions, in parts of bounded work."""

from __future__ import annotations

from typing import Any

from amqproxy.broker.definitions import definitions_json
from amqproxy.control.changes.access_changes import Answer, Change
from amqproxy.control.changes.actor import Actor


class ImportDefinitions(Change, frozen=True, tag="import"):
    """Create the objects of a part of a definitions.json; with `vhost`, only objects in it."""

    definitions: dict[str, Any]
    vhost: str | None = None

    def apply(self, actor: Actor) -> Answer:
        return {"warnings": definitions_json.load(actor.broker, self.definitions, actor.now, self.vhost)}
