"""Selection of messages by connection, by channel, or by a filter on their commands."""

from __future__ import annotations

from amqproxy.dashboard.message_ring import GAP, MessageRow
from amqproxy.dashboard.selection import Selection
from amqproxy.rules.message_filter import MessageFilter
from amqproxy.taps.message_recorder import NORMAL_CODES


class MessageSelection(Selection):
    """Selects messages."""

    def shows(self, row: MessageRow) -> bool:
        """Whether the message is selected."""
        if row.type == GAP:
            return True
        place = self._place
        if place.channel is not None and (row.channel or 0) != place.channel:
            return False
        if not place.has_connection(row):
            return False
        if self._filter is None:
            return True
        content = row.content
        if content is None:
            return self._faults and _is_fault(row)
        client = self._client_of(row.stream, row.connection, row.frame)
        return MessageFilter(self._filter, client).selects(
            content.sender,
            row.channel or 0,
            content.method,
            content.properties,
            content.size,
            content.body,
            ts_ns=row.ts_ns,
            tags=row.tags,
        )


def _is_fault(row: MessageRow) -> bool:
    if row.type in ("connection", "channel"):
        return row.outcome == "closed" and row.code not in NORMAL_CODES
    return True
