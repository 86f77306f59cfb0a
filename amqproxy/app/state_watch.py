"""The findings about the proxy itself: its state, looked at once a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

import trio

from amqproxy.process.supervision import contained
from amqproxy.proxy.logins.logins import Logins
from amqproxy.proxy.upstreams.group import UpstreamGroup
from amqproxy.taps.findings.finding import Finding
from amqproxy.taps.findings.state.proxy_state import MemberState, ProxyState, UpstreamState
from amqproxy.taps.findings.state.state_inspector import StateInspector

INTERVAL = 1.0
"""Seconds between two looks at the state."""


async def watch_state(state: Callable[[], ProxyState], report: Callable[[list[Finding]], None]) -> None:
    """Call `report` with the findings in the state of the proxy, forever."""
    inspector = StateInspector()
    while True:
        with contained("state not inspected"):
            found = inspector.look(state(), time.time_ns())
            if found:
                report(found)
        await trio.sleep(INTERVAL)


class StateSource:
    """The state of a proxy with these upstream `groups` and `logins`, as it is when called; of a broker, without."""

    def __init__(self, groups: Callable[[], Iterable[UpstreamGroup]] = tuple, logins: Logins | None = None) -> None:
        self._groups = groups
        self._logins = logins
        self.certificates: Mapping[str, float] = {}
        """Expiry of the certificates in files, in seconds since 1970."""

    def note_certificates(self, expiries: Mapping[str, float]) -> None:
        """Note when the certificates in files expire, in seconds since 1970."""
        self.certificates = expiries

    def __call__(self) -> ProxyState:
        return ProxyState(tuple(map(self._upstream, self._groups())), self.certificates)

    def _upstream(self, group: UpstreamGroup) -> UpstreamState:
        queue, renewals = group.logins, None if self._logins is None else self._logins.renewals(group.name)
        return UpstreamState(
            group.name,
            tuple(MemberState(each.address, each.ejections + each.downs, each.last_failure) for each in group.members),
            login_queue=0 if queue is None else queue.most,
            refused_logins=0 if queue is None else queue.refused,
            failed_renewals=renewals["failed"] if renewals else 0,
            renewal_fault="" if self._logins is None else self._logins.renewal_fault(group.name),
        )
