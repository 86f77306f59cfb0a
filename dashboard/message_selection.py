"""Selection of messages by connection, by channel, or by a filter on their commands."""

from __future__ import annotations

from amqproxy.rules.matching.filters import Filter
from amqproxy.rules.message_filter import MessageFilter
from amqproxy.taps.message_recorder import NORMAL_CODES
from dashboard.frame_selection import ClientOf, Place, named_client
from dashboard.message_ring import FINDING, MessageRow
from dashboard.viewer_filter import viewer_filter


class MessageSelection:
    """Selects messages; findings are not filtered. `ValueError` if the filter is invalid.

    Like `decode --messages`, it always selects abnormal closes and other records without a command, and messages on
    which the evaluation of the filter fails.
    """

    def __init__(
        self, filter: str | None = None, place: Place | None = None, client_of: ClientOf = named_client
    ) -> None:
        self._filter: Filter | None = viewer_filter(filter) if filter else None
        self._place = place or Place()
        self._client_of = client_of

    def shows(self, row: MessageRow) -> bool:
        """Whether the message or finding is selected."""
        place = self._place
        if place.channel is not None and (row.channel or 0) != place.channel:
            return False
        if not place.has_connection(row):
            return False
        if self._filter is None or row.type == FINDING:
            return True
        content = row.content
        if content is None:
            return _is_always_shown(row)
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


def _is_always_shown(row: MessageRow) -> bool:
    if row.type in ("connection", "channel"):
        return row.outcome == "closed" and row.code not in NORMAL_CODES
    return True
