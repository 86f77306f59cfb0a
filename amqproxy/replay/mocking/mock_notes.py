"""Differences between a live client of a mock and the recorded one."""

from __future__ import annotations

from amqproxy.comparison.difference import Change, Difference, DifferenceKind, Place
from amqproxy.rules.matching.generated_names import Generated, shape_of

MAX_DIFFERENCES = 10_000
"""Differences of one connection that are reported; more are only counted."""


class MockNotes:
    """Notes on one client: the first `differences`, their total `count`, and texts about `unanswered` commands."""

    def __init__(self) -> None:
        self.differences: list[Difference] = []
        self.count = 0
        self.unanswered: list[str] = []

    def add(
        self,
        kind: DifferenceKind,
        what: str,
        method: str,
        a: Place | None = None,
        changes: tuple[Change, ...] = (),
        *,
        is_publish: bool,
    ) -> None:
        """Note a difference in a command, which is described by `what`; `a` is where the recording has it."""
        self.count += 1
        type = "publish" if is_publish else "request"
        if len(self.differences) < MAX_DIFFERENCES:
            self.differences.append(Difference(kind=kind, type=type, what=what, method=method, a=a, changes=changes))

    def add_unanswered(self, text: str) -> None:
        """Note a command for which the recording has no answer."""
        if len(self.unanswered) < MAX_DIFFERENCES:
            self.unanswered.append(text)


def is_of_the_run(change: Change) -> bool:
    """Whether each client chooses the changed value anew: a consumer tag, or a generated name or identifier."""
    if change.field == "consumer_tag":
        return True
    before, after = change.before, change.after
    if change.field == "body" or not (isinstance(before, str) and isinstance(after, str)):
        return False
    shape = shape_of(before, certain=True)
    return shape == shape_of(after, certain=True) and any(isinstance(each, Generated) for each in shape)
