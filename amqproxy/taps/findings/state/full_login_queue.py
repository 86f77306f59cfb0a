"""Clients that are refused, since too many wait to log in."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.state.proxy_state import ProxyState
from amqproxy.taps.findings.state.state_detector import Rises, StateDetector, StateSighting


class FullLoginQueue(StateDetector):
    """An upstream's queue of clients that wait to log in was full, and further clients were refused."""

    kind = "login-queue-full"
    severity = Severity.ERROR
    why = (
        "More clients connect than `logins_per_second` lets through for long: those refused retry, which adds to them."
    )
    remedy = (
        "Have clients keep their connections, and wait longer between their attempts; raise `logins_per_second` as far "
        "as the broker bears it, or `login_queue` for a longer wait."
    )

    def __init__(self) -> None:
        self._refusals = Rises()

    def look(self, state: ProxyState, now: float) -> Iterator[StateSighting]:
        groups = {each.name: each for each in state.upstreams}
        for name, times in self._refusals.by((name, each.refused_logins) for name, each in groups.items()).items():
            text = f"{name} refused clients, as {groups[name].login_queue} waited already to log in"
            yield StateSighting(name, text, times)
