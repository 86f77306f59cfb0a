"""The outcome of a run over a queue."""

from __future__ import annotations

from typing import Any

import msgspec

MAX_LISTED = 1000
"""Maximum of messages that are listed with the reason why they were left; all are counted."""


class LeftMessage(msgspec.Struct, frozen=True):
    """A chosen message that stays in the queue, by its position at the start of the run."""

    position: int
    reason: str
    message_id: str | None = None


class RunReport(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Counts of messages. It is the JSON of `amqproxy queue … --json`.

    `depth` is the queue's at the start; `looked_at` those that were got, `chosen` those that the filter chose, `done`
    those with which the run did what it is for: of a dry run, those with which it would. `left` are chosen ones that
    stay, with the reason, `left_count` all of them. `not_looked_at` is the part of `depth` behind the last message that
    was got: the window was full, if `is_window_full`, or the limit reached. `rescued` are messages that a return would
    have killed, now at the end of the queue.

    `possible_repeats` are messages that an earlier run may have published, or written, before it was ended in the
    middle: they were in the queue again, and are done now, or by runs since then that could not report it; and those
    that this run has published twice, around a message with which the target closed the channel. `uncertain` are those
    that this run has sent without learning the outcome, or whose acknowledgement may be lost: they may be on both
    sides. `unreadable` are those on which the filter failed; they stay.
    """

    run: str = ""
    command: str = ""
    queue: str = ""
    to: str = ""
    is_dry_run: bool = False
    depth: int = 0
    looked_at: int = 0
    chosen: int = 0
    done: int = 0
    left_count: int = 0
    left: list[LeftMessage] = []
    places: dict[str, int] = {}
    not_looked_at: int = 0
    is_window_full: bool = False
    rescued: int = 0
    possible_repeats: int = 0
    uncertain: int = 0
    unreadable: int = 0
    is_interrupted: bool = False
    failure: str = ""

    def leave(self, position: int, reason: str, message_id: str | None) -> None:
        """Note a chosen message that stays."""
        self.left_count += 1
        if len(self.left) < MAX_LISTED:
            self.left.append(LeftMessage(position, reason, message_id))

    @property
    def is_complete(self) -> bool:
        """Whether nothing was left that the run should have done."""
        return not (self.failure or self.is_interrupted or self.left_count or self.is_window_full or self.unreadable)

    def to_json(self) -> dict[str, Any]:
        """Return the report as JSON has it."""
        return msgspec.to_builtins(self)  # type: ignore[no-any-return]
