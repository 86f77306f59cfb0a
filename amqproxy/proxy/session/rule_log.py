"""What rules refuse, and how they fail, in the log: a few lines of each rule at a time, and how many others.

A publish, or any other command, that a rule refuses or drops is logged here; the rule's `decide` has decided it, called
by `rules.engine.rule_calls`. `amqproxy rules explain` (`rules.engine.explanation`) prints which rules would be asked
about a command, and why. What the integrated broker refuses is logged by its `ClientConnection` as a channel error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.transitions import Peer
from amqproxy.conversion.client_name import given_name
from amqproxy.process.log import logger
from amqproxy.rules.context import Client
from amqproxy.rules.engine.outcome import outcome
from amqproxy.rules.verdict import Verdict

MOST_LINES = 10
"""Refusals of one rule that are logged in an interval; of the others, their number is."""

INTERVAL = 10.0
"""Seconds after which a rule's refusals are logged again; and its failures, after the first."""

_NAMES = ("exchange", "source", "destination", "queue", "routing_key", "consumer_tag", "virtual_host")
"""The fields of a refused method that are logged."""


class RuleFailures(Protocol):
    """How often a rule has failed, and how it did last."""

    @property
    def errors(self) -> int: ...

    last_failure: str


class RuleLog:
    """Of all sessions. `now` is in seconds of a steady clock. What it keeps is bounded by the number of rules."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._log = logger()
        self._windows: dict[str, _RefusalWindow] = {}
        self._failed: dict[str, tuple[int, float]] = {}

    def note_refusal(
        self,
        log: Any,
        sender: Peer,
        command: Command,
        verdict: Verdict,
        *,
        client: Callable[[], Client],
        covered: Callable[[], Command | None],
    ) -> None:
        """Log that a command goes no further, unless there were many: who is refused what, by which rule, and how.

        `log` is the session's. `client` and `covered` are asked only where a line is written: what is known of the
        client, and the command, both as people may see them.
        """
        rule = verdict.marks[-1] if verdict.marks else ""
        window = self._windows.get(rule)
        if window is None or self._now() >= window.until:
            self._end(rule, window)
            window = self._windows[rule] = _RefusalWindow(self._now() + INTERVAL)
        window.count += 1
        if window.count > MOST_LINES:
            return
        known, shown = client(), covered()
        fields: dict[str, Any] = {"rule": rule, "verdict": outcome(verdict, command), "sender": str(sender)}
        fields |= {"method": "heartbeat" if command.index < 0 else command.method.name, "channel": command.channel}
        if command.index >= 0 and shown is not None:
            found = {name: getattr(shown.method, name, None) for name in _NAMES}
            fields |= {name: value for name, value in found.items() if value is not None}
        fields |= {"user": known.user, "vhost": known.vhost, "name": given_name(known.properties)}
        if verdict.close is not None:
            fields["code"] = verdict.close.code
            if shown is command:  # else the text may say what the command does not show
                fields["text"] = verdict.close.text
        log.warning("refused", **fields)

    def note_failures(self, rules: Iterable[str], counts: Mapping[str, RuleFailures]) -> None:
        """Log that rules have failed, where that was not logged lately."""
        for rule in rules:
            if rule in counts:
                self._report(rule, counts[rule], self._now())

    def _report(self, rule: str, failures: RuleFailures, now: float) -> None:
        logged, again = self._failed.get(rule, (0, now))
        logged = logged if logged <= failures.errors else 0  # another rule of that name, since a reload
        if failures.errors > logged and now >= again:
            self._failed[rule] = failures.errors, now + INTERVAL
            self._log.error("rule failed", rule=rule, times=failures.errors - logged, reason=failures.last_failure)

    def flush(self, counts: Mapping[str, RuleFailures]) -> None:
        """Log what was left out, once its interval is over, and which rules have failed. To be called every second."""
        now = self._now()
        for rule, window in list(self._windows.items()):
            if now >= window.until:
                self._end(rule, window)
                del self._windows[rule]
        for rule, failures in counts.items():
            self._report(rule, failures, now)
        if len(self._failed) > len(counts):  # rules that are no more
            self._failed = {rule: noted for rule, noted in self._failed.items() if rule in counts}

    def _end(self, rule: str, window: _RefusalWindow | None) -> None:
        if window is not None and window.count > MOST_LINES:
            self._log.warning("more refused", rule=rule, count=window.count - MOST_LINES)


class _RefusalWindow:
    """The refusals of one rule until a time."""

    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.count = 0
        self.until = until
