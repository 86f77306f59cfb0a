"""Selection of findings by words in their text and kind, by one kind, by connection, or by channel."""

from __future__ import annotations

from amqproxy.dashboard.message_ring import MessageRow
from amqproxy.dashboard.selection import Place

KIND = "kind:"


class FindingSelection:
    """Selects findings that contain all `words`, in any case, and none of those that begin with "-".

    `kind:NAME` stands for the findings of exactly that kind.
    """

    def __init__(self, words: str | None = None, place: Place | None = None) -> None:
        found = (words or "").casefold().split()
        self._wanted = [_needle(each) for each in found if not each.startswith("-")]
        self._unwanted = [_needle(each[1:]) for each in found if each.startswith("-") and len(each) > 1]
        self._place = place or Place()

    def shows(self, row: MessageRow) -> bool:
        """Whether the finding is selected."""
        place = self._place
        if not place.has_connection(row) or (place.channel is not None and (row.channel or 0) != place.channel):
            return False
        if not (self._wanted or self._unwanted):
            return True
        text = row.json.decode().casefold()
        return all(each in text for each in self._wanted) and not any(each in text for each in self._unwanted)

    def take_warning(self) -> str | None:
        """Return `None`: words never fail."""
        return None


def _needle(word: str) -> str:
    """Return text that the JSON of each finding with the word contains."""
    kind = word.removeprefix(KIND)
    return word if kind == word else f'"kind":"{kind}"'
