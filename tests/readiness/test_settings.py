"""Uses in rabbitmq.conf."""

from __future__ import annotations

from amqproxy.rabbitmq.profile import PROFILES
from amqproxy.readiness.settings import add_settings, configured
from amqproxy.readiness.uses import Uses


def test_features_are_part_of_the_target() -> None:
    settings = {
        "deprecated_features.permit.global_qos": "true",
        "deprecated_features.permit.transient_nonexcl_queues": "false",
        "deprecated_features.permit.nothing": "true",
    }
    target = configured(PROFILES["4.3"], settings)
    assert target.permits("global_qos")
    assert not target.permits("transient_nonexcl_queues")


def test_keys_that_stop_the_target() -> None:
    uses = Uses(PROFILES["4.3"])
    add_settings(uses, {"heartbeat": "60", "management.enable_uaa": "true"})
    assert [each.use for each in uses.readiness().uses] == ["rabbitmq.conf has management.enable_uaa"]
