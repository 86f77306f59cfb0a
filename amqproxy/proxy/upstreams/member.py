"""One broker of an upstream group: its health, its share of new clients and its counts. Pure; times are arguments."""

from __future__ import annotations

import math
from enum import StrEnum
from typing import Any, Protocol

LEAST_SHARE = 0.1
"""Share of its weight that a member gets at the beginning of its slow start."""

FAILURES = ("refused", "timeout", "tls", "unreachable", "no answer", "vhost down")
"""Kinds of failures: the connection was refused, timed out, failed in TLS or otherwise, the protocol header was not
answered, or the broker refused the connection since its virtual host is down. A connection that is closed during the
login is none: RabbitMQ refuses wrong passwords that way, and guesses must not eject members.
"""


class Standing(StrEnum):
    """State of a member with regard to new clients."""

    UP = "up"
    STARTING = "slow start"
    """It takes clients again, at first only a part of its share."""
    EJECTED = "ejected"
    """It failed repeatedly, and is left out for a while."""
    DOWN = "down"
    """Its active checks fail."""
    DRAINING = "draining"
    """An operator lets it take no new clients."""


TAKES_CLIENTS = frozenset({Standing.UP, Standing.STARTING})


class Judge(Protocol):
    """The owner of members, which decides what follows from their failures."""

    def note_failure(self, member: Member, kind: str, text: str, now: float) -> None: ...


class Member:
    """A broker at `address`, with its `weight`, `priority` and `zone`; the shell connects to it by `dial`.

    `connections` is the number of sessions that use it, `blocked` the number of these that it blocks.
    """

    __slots__ = (
        "_configured_weight",
        "_failed_checks",
        "_is_down",
        "_passed_checks",
        "address",
        "blocked",
        "connect_seconds",
        "connections",
        "credit",
        "dial",
        "downs",
        "ejected_until",
        "ejections",
        "failing_since",
        "failures",
        "failures_by_kind",
        "group",
        "is_draining",
        "last_failure",
        "origin",
        "passed_at",
        "picks",
        "priority",
        "recovered_at",
        "retries",
        "slow_start",
        "streak",
        "weight",
        "zone",
    )

    def __init__(
        self,
        address: str,
        dial: Any = None,
        *,
        weight: int = 1,
        priority: int = 0,
        zone: str = "",
        slow_start: float = 0.0,
        origin: str = "",
    ) -> None:
        self.address = address
        self.origin = origin or address
        """The address in the configuration, whose host's name was looked up."""
        self.dial = dial
        self.weight = self._configured_weight = weight
        self.priority = priority
        self.zone = zone
        self.slow_start = slow_start
        self.connections = 0
        self.blocked = 0
        self.picks = 0
        """Number of clients that have reached the member, in `connect_seconds` all together."""
        self.connect_seconds = 0.0
        self.retries = 0
        """Number of clients that were taken to another member after this one had failed."""
        self.failures = 0
        """Consecutive failures to connect."""
        self.failures_by_kind = dict.fromkeys(FAILURES, 0)
        self.last_failure = ""
        self.ejections = self.downs = 0
        """Number of times that it was left out since it had failed, and that it went down by its checks."""
        self.streak = 0
        """Consecutive ejections, which lengthen the next."""
        self.ejected_until = -math.inf
        self.recovered_at = -math.inf
        self.is_draining = False
        self.group: Judge | None = None
        """The group, which ejects members."""
        self.credit = 0.0
        """Its claim to the next client in round robin."""
        self.passed_at = self.failing_since = -math.inf
        """Times of the last check that passed, and of the first of those in a row that failed."""
        self._is_down = False
        self._failed_checks = 0
        self._passed_checks = 0

    def configure(self, *, weight: int, priority: int, zone: str, slow_start: float) -> None:
        """Apply the settings of a config; a weight that an operator has set lasts while the config's stays the same."""
        if weight != self._configured_weight:
            self.weight = self._configured_weight = weight
        self.priority = priority
        self.zone = zone
        self.slow_start = slow_start

    def standing(self, now: float) -> Standing:
        """Return whether the member takes clients, and if not, why."""
        if self.is_draining:
            return Standing.DRAINING
        if self._is_down:
            return Standing.DOWN
        if now < self.ejected_until:
            return Standing.EJECTED
        return Standing.STARTING if self._since_recovery(now) < self.slow_start else Standing.UP

    def share(self, now: float) -> float:
        """Return the member's weight, reduced during its slow start."""
        since = self._since_recovery(now)
        if since >= self.slow_start:
            return float(self.weight)
        return self.weight * max(LEAST_SHARE, since / self.slow_start)

    def _since_recovery(self, now: float) -> float:
        return max(0.0, now - max(self.recovered_at, self.ejected_until))

    # --- connections of clients

    @property
    def tls_handshakes(self) -> int:
        """Number of TLS handshakes with the broker that were completed, of clients and of active checks."""
        return getattr(self.dial, "handshakes", 0)

    def note_connected(self, seconds: float = 0.0) -> None:
        """Count a client that has reached the member, and the time that this took."""
        self.picks += 1
        self.connections += 1
        self.connect_seconds += seconds

    def note_open(self) -> None:
        """Note a success: a client's connection is open. One that was only reached may still be refused or lost."""
        self.failures = 0

    def report_failure(self, kind: str, text: str, now: float) -> None:
        """Count a failure of a session with the member, which may eject it."""
        if self.group is not None:
            self.group.note_failure(self, kind, text, now)

    def note_disconnected(self) -> None:
        """Count the end of a client's session."""
        self.connections -= 1

    def note_failure(self, kind: str, text: str) -> None:
        """Count a failure; `text` is its reason."""
        self.failures += 1
        self.failures_by_kind[kind] = self.failures_by_kind.get(kind, 0) + 1
        self.last_failure = text

    # --- ejection

    def eject(self, now: float, seconds: float) -> None:
        """Leave the member out for some time."""
        self.ejections += 1
        self.streak += 1
        self.failures = 0
        self.ejected_until = now + seconds

    def readmit(self, now: float) -> None:
        """End an ejection or a drain; the member takes clients again, in a slow start if it had been ejected."""
        if now < self.ejected_until:
            self.ejected_until = now
        self.is_draining = False

    # --- active checks

    @property
    def is_down(self) -> bool:
        """Whether its active checks fail."""
        return self._is_down

    def note_check(self, now: float, *, passed: bool, fall: int, rise: int) -> bool:
        """Count the result of a check; return whether the member went down or came up by it.

        It goes down after `fall` failures in a row, and comes up after `rise` successes in a row.
        """
        if passed:
            self._failed_checks = 0
            self._passed_checks += 1
            self.passed_at = now
            if self._is_down and self._passed_checks >= rise:
                self._is_down = False
                self.recovered_at = now
                return True
            return False
        self._passed_checks = 0
        self._failed_checks += 1
        if self._failed_checks == 1:
            self.failing_since = now
        if not self._is_down and self._failed_checks >= fall:
            self._is_down = True
            self.downs += 1
            return True
        return False
