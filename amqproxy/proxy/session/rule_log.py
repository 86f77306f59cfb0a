"""Log of refusals and failures of rules: a few lines per rule and interval, and the number of suppressed ones.

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
"""Maximum refusals of one rule that are logged in an interval; of further ones, only the number is logged."""

INTERVAL = 10.0
"""Seconds until a rule's refusals are logged again, and its failures after the first."""

_NAMES = ("exchange", "source", "destination", "queue", "routing_key", "consumer_tag", "virtual_host")
"""The fields of a refused method that are logged."""


class RuleFailures(Protocol):
    """Failure count of a rule, and its last failure."""

    @property
    def errors(self) -> int: ...

    last_failure: str


class RuleLog:
    """Rule log of all sessions, bounded by the number of rules. `now` is in seconds of a monotonic clock."""

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
        """Log that a rule refused or dropped a command, up to `MOST_LINES` lines in an interval.

        `log` is the session's. `client` and `covered` are called only if a line is written: they return the client
        and the command with redactions applied.
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
            if shown is command:  # the close's text may quote what redactions hide
                fields["text"] = verdict.close.text
        log.warning("refused", **fields)

    def note_failures(self, rules: Iterable[str], counts: Mapping[str, RuleFailures]) -> None:
        """Log the failures of rules that were not logged within the last interval."""
        for rule in rules:
            if rule in counts:
                self._report(rule, counts[rule], self._now())

    def _report(self, rule: str, failures: RuleFailures, now: float) -> None:
        logged, again = self._failed.get(rule, (0, now))
        logged = logged if logged <= failures.errors else 0  # a reload created another rule of that name
        if failures.errors > logged and now >= again:
            self._failed[rule] = failures.errors, now + INTERVAL
            self._log.error("rule failed", rule=rule, times=failures.errors - logged, reason=failures.last_failure)

    def flush(self, counts: Mapping[str, RuleFailures]) -> None:
        """Log the suppressed refusals of past intervals, and failures of rules. To be called every second."""
        now = self._now()
        for rule, window in list(self._windows.items()):
            if now >= window.until:
                self._end(rule, window)
                del self._windows[rule]
        for rule, failures in counts.items():
            self._report(rule, failures, now)
        if len(self._failed) > len(counts):  # removed rules
            self._failed = {rule: noted for rule, noted in self._failed.items() if rule in counts}

    def _end(self, rule: str, window: _RefusalWindow | None) -> None:
        if window is not None and window.count > MOST_LINES:
            self._log.warning("more refused", rule=rule, count=window.count - MOST_LINES)


class _RefusalWindow:
    """Number of a rule's refusals until the end of an interval."""

    __slots__ = ("count", "until")

    def __init__(self, until: float) -> None:
        self.count = 0
        self.until = until
