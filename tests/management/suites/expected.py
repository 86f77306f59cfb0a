"""Tests of the suites that pass at RabbitMQ 4.3 and fail at the integrated broker, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

_SHOVEL = "waits for what a running shovel declares: shovels are kept as parameters, and do not run"
_STREAM = "asks for a listener of RabbitMQ's stream protocol, which this broker does not have"

EXPECTED: Mapping[str, Mapping[str, str]] = {
    "rabbit-hole": {},
    "rabbitmq_http_client": {
        "async_dynamic_shovel_tests::test_async_declare_a_dynamic_amqp091_shovel": _SHOVEL,
        "blocking_dynamic_shovel_tests::test_blocking_declare_a_dynamic_amqp091_shovel": _SHOVEL,
        "async_health_checks_tests::test_async_health_check_protocol_listener_succeeds": _STREAM,
        "blocking_health_checks_tests::test_blocking_health_check_protocol_listener_succeeds": _STREAM,
    },
    "rabbitmqadmin": {},
}
