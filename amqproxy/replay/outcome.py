"""The outcome of a replay, and expressions about it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from amqproxy.capture.observed import observed
from amqproxy.comparison.difference import Difference
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.step_selection import StepFilter
from amqproxy.replay.steps import SentStep
from amqproxy.replay.traffic_log import TrafficLog
from amqproxy.rules.matching.filters import Filter, compiled, program_of
from amqproxy.taps.observer import ObserverSettings

_SUBJECT = re.compile(r"\b(finding|difference)\s*\.")


class ReplayOutcome(msgspec.Struct, frozen=True):
    """The traffic of a replay, and its differences from the recording."""

    traffic: TrafficLog
    differences: list[Difference]


class OutcomeFilter:
    """A CEL expression about the commands, findings or differences of an outcome. `ValueError` if it is invalid.

    With the names of rules and filters, it is evaluated for each command, from either side. With `finding.` or
    `difference.`, for each finding or each difference, with their fields as JSON has them.
    """

    def __init__(self, expression: str) -> None:
        subjects = set(_SUBJECT.findall(_without_texts(expression)))
        if len(subjects) > 1:
            raise ValueError("it is asked of one thing at a time: `finding.…` or `difference.…`")
        self._subject = next(iter(subjects), "")
        self._filter: Filter | None = None
        self._program: Any = None
        if self._subject:
            self._program = program_of(expression)
        else:
            self._filter = compiled(expression)

    def holds(self, outcome: ReplayOutcome) -> bool:
        """Whether the expression is true of any command, finding or difference."""
        if self._filter is not None:
            return _holds_of_commands(self._filter, outcome.traffic)
        found: Iterable[Any] = outcome.differences
        if self._subject == "finding":
            found = observed(outcome.traffic.decoded(), ObserverSettings(messages=False, findings=True))
        return any(self._is_true({self._subject: msgspec.json.decode(each.to_json())}) for each in found)

    def _is_true(self, variables: dict[str, Any]) -> bool:
        try:
            return self._program.execute(variables) is True
        except Exception:  # noqa: BLE001 - the library raises many kinds: what it cannot evaluate does not hold
            return False


def _holds_of_commands(chosen: Filter, traffic: TrafficLog) -> bool:
    asked = StepFilter(chosen)
    for step in steps_of(traffic.decoded()):
        if isinstance(step, SentStep):
            asked.learn(step)
            if asked.holds(step):
                return True
    return False


def _without_texts(expression: str) -> str:
    return re.sub(r"\"[^\"]*\"|'[^']*'", "", expression)
