"""Tests of the suites that pass at RabbitMQ 4.3 and fail at the integrated broker, each with its reason."""

from __future__ import annotations

from collections.abc import Mapping

_SHOVEL = "looks for the source's queue 0.3 s after the shovel was set, before the shovel process has started"
_STREAM = "asks for a listener of RabbitMQ's stream protocol, which this broker does not have"
_LINK = "expects a link that is running or starting: this one is shown with the error that the broker does not federate"

_HOLE = "RabbitMQ HTTP API client"

EXPECTED: Mapping[str, Mapping[str, str]] = {
    "rabbit-hole": {
        f"{_HOLE} GET /api/federation-links/{{vhost}} when there are links returns the list of links": _LINK,
        f"{_HOLE} PUT /api/parameters/{{component}}/{{vhost}}/{{name}} when the parameter does not exist "
        "creates the parameter": "expects no parameters, and finds the upstream that the spec of links leaves behind",
    },
    "rabbitmq_http_client": {
        "async_dynamic_shovel_tests::test_async_declare_a_dynamic_amqp091_shovel": _SHOVEL,
        "blocking_dynamic_shovel_tests::test_blocking_declare_a_dynamic_amqp091_shovel": _SHOVEL,
        "async_health_checks_tests::test_async_health_check_protocol_listener_succeeds": _STREAM,
        "blocking_health_checks_tests::test_blocking_health_check_protocol_listener_succeeds": _STREAM,
    },
    "rabbitmqadmin": {},
}
