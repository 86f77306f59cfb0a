"""Detector of a use that RabbitMQ, or a later version of it, refuses or takes differently."""

from __future__ import annotations

from typing import ClassVar

from amqproxy.rabbitmq.incompatibility import Incompatibility, Level, profile_of
from amqproxy.rabbitmq.profile import NEWEST, OLDEST, PROFILES, Profile
from amqproxy.taps.findings.detector import Detector
from amqproxy.taps.findings.finding import Severity
from amqproxy.taps.findings.rabbitmq4.use_text import UseText, client_of

TARGET = PROFILES[NEWEST]
"""The version for which a connection must be ready."""


class UpgradeDetector(Detector):
    """Base of the detectors of one incompatibility each, from which a subclass has its kind, why and remedy."""

    severity = Severity.INFO
    is_counted_by_text = True
    incompatibility: ClassVar[Incompatibility]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        found = cls.__dict__.get("incompatibility")
        if found is not None:
            cls.kind, cls.why, cls.remedy = found.kind, found.why, found.remedy

    def advice(self, use: str) -> str | None:
        """Return the text about a use, with the client and what RabbitMQ does; `None` for another broker.

        A server that already differs from 3.10 has taken the use: the text then says what it does, and not what a later
        version will do. What breaks there was refused, and is another detector's.
        """
        server = self.server
        if server is None:
            return None
        profile, version = server
        effect = self.incompatibility.effect(profile)
        if effect is None:
            effect, version = self.incompatibility.effect(TARGET), TARGET.name
        elif effect.level is Level.BREAKS:
            return None
        if effect is None:
            return None
        facts = self.observed.trace.facts
        return str(UseText(use, client_of(facts), facts.user, version, effect.text))

    @property
    def server(self) -> tuple[Profile, str] | None:
        """The server's profile and version, those of the oldest if they were not seen; `None` if it is not RabbitMQ."""
        properties = self.observed.trace.facts.server_properties
        if properties is None:
            return OLDEST, OLDEST.name
        if properties.get("product") != "RabbitMQ":
            return None
        version = "".join(str(properties.get("version", ""))[:32].split())
        return profile_of(version), version
