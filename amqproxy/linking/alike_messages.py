"""Messages that cannot be told apart by their content, and the ones among them that a queue may still deliver."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import msgspec

from amqproxy.linking.message_life import Delivery, Group, MessageLife

MAX_ALIKE = 1024
"""Maximum number of alike messages whose places in queues are followed; beyond it the oldest are left out."""

MAX_PASSAGES = 256
"""Maximum number of queues in which the places of alike messages are followed."""


class Found(msgspec.Struct, frozen=True, gc=False):
    """The message that a delivery is taken for, `among` how many, and whether none but those were possible."""

    life: MessageLife | None
    among: int
    is_certain: bool


class Passage(msgspec.Struct, gc=False):
    """Messages that a group may still deliver for the first time.

    `waiting` are those in turn: each delivery takes the oldest. `possible` are those not surely delivered: `taken`
    deliveries have come of them, and once these are as many as the messages, all are delivered. `is_cut` is whether
    messages that the group may deliver are missing among them.
    """

    waiting: deque[MessageLife]
    possible: list[MessageLife]
    is_cut: bool
    taken: int = 0

    def drop_delivered(self) -> None:
        """Clear the possible messages if as many were delivered."""
        if self.taken >= len(self.possible):
            self.possible.clear()
            self.taken = 0


class AlikeMessages:
    """Published messages with one key, the oldest first. `is_cut` is whether some were left out, or forgotten."""

    __slots__ = ("_passages", "is_cut", "lives")

    def __init__(self, *, is_cut: bool) -> None:
        self.lives: list[MessageLife] = []
        self.is_cut = is_cut
        self._passages: dict[Group, Passage] = {}

    def add(self, life: MessageLife) -> None:
        """Add a message that was published."""
        self.lives.append(life)
        for group, passage in self._passages.items():
            if group.fits(life):
                passage.possible.append(life)
                passage.waiting.append(life)
        if len(self.lives) > MAX_ALIKE:
            self.forget(self.lives[0])

    def exclude(self, life: MessageLife) -> None:
        """Remove a message that has reached no queue."""
        if life in self.lives:
            self.lives.remove(life)
            for passage in self._passages.values():
                if life in passage.waiting:
                    passage.waiting.remove(life)
                if life in passage.possible:
                    passage.possible.remove(life)
                    passage.drop_delivered()

    def forget(self, life: MessageLife) -> None:
        """Remove a message that queues may still deliver."""
        if life not in self.lives:
            return
        self.lives.remove(life)
        self.is_cut = True
        for passage in self._passages.values():
            if life in passage.waiting:
                passage.waiting.remove(life)
            if life in passage.possible:
                passage.possible.remove(life)
                passage.is_cut = True
                passage.taken = min(passage.taken, len(passage.possible))

    def put_last(self, life: MessageLife) -> None:
        """Move a message to the end: it has been committed now."""
        if len(self.lives) > 1 and life in self.lives:
            self.lives.remove(life)
            self.lives.append(life)
            for passage in self._passages.values():
                if life in passage.waiting:
                    passage.waiting.remove(life)
                    passage.waiting.append(life)

    def fits(self, group: Group) -> bool:
        """Whether the group may have delivered any of the messages."""
        for life in self.lives:  # noqa: SIM110 -- a generator takes twice as long, once for each delivery
            if group.fits(life):
                return True
        return False

    def first_delivery(self, group: Group) -> Found:
        """Take the message that the group delivers for the first time now."""
        passage = self._passages.get(group)
        if passage is None:
            if len(self.lives) == 1:
                life = self.lives[0]
                if any(each.group == group and not each.is_redelivered for each in life.deliveries):
                    return Found(None, 0, is_certain=False)
                return Found(life, 1, not self.is_cut)
            passage = self._passages[group] = self._new_passage(group)
        among = len(passage.possible)
        if not among:
            return Found(None, 0, is_certain=False)
        waiting = passage.waiting
        chosen = next((life for life in waiting if not life.is_uncommitted), waiting[0] if waiting else None)
        if chosen is None:
            chosen = passage.possible[0]
        else:
            waiting.remove(chosen)
        passage.taken += 1
        passage.drop_delivered()
        return Found(chosen, among, not passage.is_cut)

    def browsed_delivery(self, group: Group) -> Found:
        """Return the message that the group shows, which stays in its queue."""
        fitting = [life for life in self.lives if group.fits(life)]
        chosen = next((life for life in fitting if all(each.group != group for each in life.deliveries)), None)
        return Found(chosen or (fitting[0] if fitting else None), len(fitting), not self.is_cut)

    def redelivery(self, group: Group, is_gone: Callable[[Delivery], bool]) -> Found:
        """Return the message that the group delivers again; `is_gone` is whether a delivery was the last of its."""
        possible = []
        returned: list[tuple[int, MessageLife]] = []
        for life in self.lives:
            if not group.fits(life):
                continue
            before = [each for each in life.deliveries if each.group == group]
            if any(each.among == 1 and is_gone(each) for each in before):
                continue
            possible.append(life)
            if before and not before[-1].is_final:
                returned.append((before[-1].settled_ns or before[-1].ts_ns, life))
        chosen = min(returned, key=lambda each: each[0])[1] if returned else possible[0] if possible else None
        return Found(chosen, len(possible), not self.is_cut)

    def _new_passage(self, group: Group) -> Passage:
        is_cut = self.is_cut
        if len(self._passages) >= MAX_PASSAGES:
            del self._passages[next(iter(self._passages))]
            self.is_cut = True
        waiting: deque[MessageLife] = deque()
        possible = []
        for life in self.lives:
            if group.fits(life):
                before = [each for each in life.deliveries if each.group == group and not each.is_redelivered]
                if not before:
                    waiting.append(life)
                if all(each.among != 1 for each in before):
                    possible.append(life)
        return Passage(waiting, possible, is_cut)
