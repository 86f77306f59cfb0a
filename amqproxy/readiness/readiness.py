"""Report about the readiness of an installation for an upgrade."""

from __future__ import annotations

import msgspec

from amqproxy.rabbitmq.incompatibility import INCOMPATIBILITIES, Level
from amqproxy.readiness.use import Use
from amqproxy.taps.record import encoded

STEPS = {
    Level.BREAKS: "Before the upgrade, change these, or put the rules in front of the broker:",
    Level.CHANGES: "Before the upgrade, decide about these; they are taken, and mean something else:",
    Level.DEPRECATED: "After the upgrade, change these; they work for now:",
}
"""Instructions for the uses of each level, in their order."""


class Readiness(msgspec.Struct, frozen=True, kw_only=True):
    """Uses that stand against an upgrade to RabbitMQ `target`, the worst first; ready if none of them breaks.

    `connections` is how many connections were seen, of which `unknown` without their beginning: their client and limits
    are not known. Both are null where no traffic was looked at.
    """

    target: str
    is_ready: bool
    connections: int | None
    unknown: int | None
    uses: tuple[Use, ...]

    def to_json(self) -> bytes:
        """Return one line of JSON, without a line end."""
        return encoded(self)

    def of(self, level: Level) -> list[Use]:
        """Return the uses of one level."""
        return [each for each in self.uses if each.level == level]

    @property
    def rules(self) -> str:
        """The rules that bridge the uses, as TOML; "" if there are none."""
        kinds = dict.fromkeys(each.kind for each in self.uses if each.has_rule)
        return "\n".join(INCOMPATIBILITIES[kind].rule for kind in kinds)

    @property
    def verdict(self) -> str:
        """One sentence: whether the installation can be upgraded, and the number of uses of each level."""
        counts = ", ".join(
            f"{len(self.of(level))} {text}"
            for level, text in (
                (Level.BREAKS, "would break"),
                (Level.CHANGES, "would change"),
                (Level.DEPRECATED, "deprecated"),
            )
        )
        return f"{'Ready' if self.is_ready else 'Not ready'} for RabbitMQ {self.target}: {counts}."
