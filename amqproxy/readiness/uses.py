"""All uses that stand against an upgrade, each once."""

from __future__ import annotations

from amqproxy.rabbitmq.incompatibility import INCOMPATIBILITIES, Level
from amqproxy.rabbitmq.profile import Profile
from amqproxy.readiness.readiness import Readiness
from amqproxy.readiness.use import Source, Use
from amqproxy.taps.findings.rabbitmq4.use_text import UseText

PREFIX = "rabbitmq4-"
"""Beginning of the kinds of findings about upgrades."""

MAX_USES = 100_000
"""Default limit on the uses that are told apart; later ones are counted together, by kind and source."""


def beyond(limit: int) -> str:
    """Return the text in place of the uses that are counted together."""
    return f"uses beyond the first {limit:,}"


class Uses:
    """Collects uses, of which `limit` are told apart; `target` is the version to upgrade to, as an operator has it."""

    def __init__(self, target: Profile, limit: int = MAX_USES) -> None:
        self.target = target
        self._limit = limit
        self._times: dict[tuple[str, Source, str, str | None, str | None], int] = {}
        self._connections: int | None = None
        self._unknown = 0

    def add(
        self, kind: str, source: Source, use: str, *, client: str | None = None, user: str | None = None, times: int = 1
    ) -> None:
        """Count a use that has an effect on the target version; ignore others."""
        place = (kind, source, use, client, user)
        if INCOMPATIBILITIES[kind].effect(self.target) is None:
            return
        if place not in self._times and len(self._times) >= self._limit:
            # a kind that is left out could be the only one that breaks
            place = (kind, source, beyond(self._limit), None, None)
        self._times[place] = self._times.get(place, 0) + times

    def add_finding(self, kind: str, text: str, times: int = 1) -> None:
        """Count the use in a finding; others than those about upgrades are ignored."""
        found = UseText.parsed(text) if kind in INCOMPATIBILITIES else None
        if found is not None:
            self.add(kind, "traffic", found.use, client=found.client, user=found.user, times=times)

    def add_connections(self, count: int, *, unknown: int = 0) -> None:
        """Count connections that were looked at, and those of them whose beginning was not seen."""
        self._connections = (self._connections or 0) + count
        self._unknown += unknown

    def readiness(self) -> Readiness:
        """Return the report, the worst and most frequent uses first."""
        uses = [self._use(*place, times) for place, times in self._times.items()]
        uses.sort(key=lambda each: (Level(each.level).rank, each.kind, -each.times, each.use))
        return Readiness(
            target=self.target.name,
            is_ready=not any(each.level == Level.BREAKS for each in uses),
            connections=self._connections,
            unknown=None if self._connections is None else self._unknown,
            uses=tuple(uses),
        )

    def _use(self, kind: str, source: Source, use: str, client: str | None, user: str | None, times: int) -> Use:
        known = INCOMPATIBILITIES[kind]
        effect = known.effect(self.target)
        assert effect is not None, kind
        return Use(
            kind=kind,
            level=str(effect.level),
            source=source,
            use=use,
            client=client,
            user=user,
            times=times,
            effect=effect.text,
            why=known.why,
            remedy=known.remedy,
            has_rule=bool(known.rule) and source == "traffic",
        )
