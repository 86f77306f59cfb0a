"""What a channel has handed out and its client has not settled, by delivery tag."""

from __future__ import annotations

from typing import TYPE_CHECKING

from amqproxy.amqp091.errors import PreconditionFailed

if TYPE_CHECKING:
    from amqproxy.broker.backlog import Entry


class Unacked:
    """Tags come in rising order. Taking some costs what is taken, not what is left."""

    __slots__ = ("_entries", "_oldest")

    def __init__(self) -> None:
        self._entries: dict[int, Entry] = {}
        self._oldest = 1

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, tag: int, entry: Entry) -> None:
        entry.tag = tag
        self._entries[tag] = entry

    def take(self, tag: int, multiple: bool) -> list[Entry]:
        """Take out what a client settles: with `multiple` all up to `tag`, which is all there is if that is 0.

        406 for a tag that is not there.
        """
        if multiple and not tag:
            return self.take_all()
        if tag not in self._entries:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        if not multiple:
            return [self._entries.pop(tag)]
        taken = []
        pop = self._entries.pop
        if tag - self._oldest < 2 * len(self._entries):
            for each in range(self._oldest, tag + 1):
                entry = pop(each, None)
                if entry is not None:
                    taken.append(entry)
        else:
            taken = [pop(each) for each in [each for each in self._entries if each <= tag]]
        self._oldest = tag + 1
        return taken

    def take_all(self) -> list[Entry]:
        """Take out everything, the oldest first."""
        taken = list(self._entries.values())
        self._entries.clear()
        return taken

    def put_back(self, entries: list[Entry]) -> None:
        """Undo the taking of these, for a transaction that is rolled back."""
        self._entries.update((entry.tag, entry) for entry in entries)
        self._entries = dict(sorted(self._entries.items()))
        self._oldest = min(self._entries, default=self._oldest)
