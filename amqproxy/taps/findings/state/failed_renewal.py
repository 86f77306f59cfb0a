"""Tokens for the login to an upstream that the proxy does not get."""

from __future__ import annotations

from collections.abc import Iterator

from amqproxy.taps.findings.expired_tokens import ExpiredToken
from amqproxy.taps.findings.state.proxy_state import ProxyState
from amqproxy.taps.findings.state.state_detector import Rises, StateDetector, StateSighting


class FailedRenewal(StateDetector):
    """The proxy gets no token for an upstream: the cause, before connections end as in `ExpiredToken`."""

    kind = ExpiredToken.kind
    severity = ExpiredToken.severity
    why = ExpiredToken.why
    remedy = ExpiredToken.remedy

    def __init__(self) -> None:
        self._failures = Rises()

    def look(self, state: ProxyState, now: float) -> Iterator[StateSighting]:
        groups = {each.name: each for each in state.upstreams}
        for name, times in self._failures.by((name, each.failed_renewals) for name, each in groups.items()).items():
            fault = groups[name].renewal_fault or "the issuer gave none"
            yield StateSighting(name, f"the proxy got no token for {name}: {fault}", times)
