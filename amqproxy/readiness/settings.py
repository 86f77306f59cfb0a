"""Uses in rabbitmq.conf, and the target that it makes of a version."""

from __future__ import annotations

from collections.abc import Mapping

from amqproxy.rabbitmq.incompatibility import UNKNOWN_SETTING
from amqproxy.rabbitmq.profile import Profile
from amqproxy.rabbitmq.settings import REMOVED, permitted_features
from amqproxy.readiness.uses import Uses


def configured(version: Profile, settings: Mapping[str, str]) -> Profile:
    """Return a version with the deprecated features that the settings permit or deny; unknown ones are ignored."""
    permitted = permitted_features(settings)
    return version.switching({name: is_permitted for name, is_permitted in permitted.items() if name in version.phases})


def add_settings(uses: Uses, settings: Mapping[str, str]) -> None:
    """Add the keys with which the target does not start."""
    for key in settings:
        if key in REMOVED:
            uses.add(UNKNOWN_SETTING.kind, "settings", f"rabbitmq.conf has {key}")
