"""Changes of edited messages, which are noted once each message is published."""

from __future__ import annotations

from amqproxy.amqp091.properties import Properties
from amqproxy.workbench.audit import Audit
from amqproxy.workbench.edit import Changes, changes_of
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.move import Change

MAX_CHANGES = 1024
"""Maximum of changes that are kept for the audit; a batch has fewer messages."""


class EditedChanges:
    """Changes that `edited` makes in each message, until `note` takes them."""

    def __init__(self, edited: Change) -> None:
        self._edited = edited
        self._changes: dict[int, Changes] = {}

    async def change(self, message: HeldMessage) -> tuple[Properties, bytes]:
        """Return the properties and the body of an edited message: a `Change`."""
        properties, body = await self._edited(message)
        self._changes[message.position] = changes_of(message, properties, body)
        if len(self._changes) > MAX_CHANGES:  # of messages that stay in the queue, whose changes nobody takes
            del self._changes[next(iter(self._changes))]
        return properties, body

    def of(self, message: HeldMessage) -> Changes:
        """Return the changes of a message, which stay."""
        return self._changes.get(message.position, {})

    def note(self, audit: Audit | None, message: HeldMessage) -> Changes:
        """Note the changes of a message that was published; return them."""
        changes = self._changes.pop(message.position, {})
        if audit is not None:
            named = {
                "position": message.position,
                "message_id": message.command.properties.message_id,
                "exchange": message.exchange,
                "routing_key": message.routing_key,
            }
            audit.note("edited", {**named, "changes": changes})
        return changes
