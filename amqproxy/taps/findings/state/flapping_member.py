"""Members of upstreams that are left out and taken back again and again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.state.proxy_state import ProxyState
from amqproxy.taps.findings.state.state_detector import Rises, StateDetector, StateSighting

OUTAGES = 3
"""Outages within `PERIOD` that make a member flapping; the alert AmqproxyUpstreamFlapping has the same bounds."""

PERIOD = 1800.0
"""Seconds."""


class FlappingMember(StateDetector):
    """A member of an upstream was ejected, or its checks failed, several times within half an hour."""

    kind = "upstream-flapping"
    severity = Severity.WARNING
    why = "Each time, its clients reconnect elsewhere and come back: queues and consumers are set up anew."
    remedy = (
        "Look at the broker, and the network between, at these times; drain the member until the cause is found: "
        "`amqproxy control upstreams-drain`."
    )

    def __init__(self) -> None:
        self._outages = Rises()
        self._times: dict[str, deque[float]] = {}

    def look(self, state: ProxyState, now: float) -> Iterator[StateSighting]:
        members = {f"{each.address} of {group.name}": each for group in state.upstreams for each in group.members}
        risen = self._outages.by((name, each.outages) for name, each in members.items())
        self._times = {name: self._times.get(name, deque(maxlen=OUTAGES)) for name in members}
        for name, count in risen.items():
            times = self._times[name]
            times.extend([now] * min(count, OUTAGES))
            if len(times) == OUTAGES and now - times[0] <= PERIOD:
                member = members[name]
                reason = f": {member.last_failure}" if member.last_failure else ""
                text = f"{name} was left out {OUTAGES} times within {PERIOD / 60:.0f} minutes{reason}"
                yield StateSighting(member.address, text)
