"""What can be configured, as types, and their JSON Schema."""

import jsonschema
import msgspec
import pytest
import yaml

from amqproxy.configuration.config import Limits
from amqproxy.configuration.schema import schema
from amqproxy.configuration.values import join_address, split_address


@pytest.mark.parametrize(
    "text",
    [
        "limts: {}",
        "limits: {connections: 0}",
        "upstream: {address: b}",
        "upstream: {address: ':5672'}",
        "upstream: {address: 'rabbit:0'}",
        "upstream: {address: 'rabbit:65536'}",
        "upstream: {tls: {key: a.key}}",
        "listen: []",
        "listen: [{address: 'a:65536'}]",
        "metrics: {}",
        "metrics: {address: 'a:99999'}",
        "broker: {limits: {disk_free: -1}}",
    ],
)
def test_the_schema_refuses_what_is_wrong(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.safe_load(text), schema())


@pytest.mark.parametrize("port", [0, 1, 9, 10, 5672, 9999, 10000, 59999, 64999, 65499, 65529, 65535])
def test_the_schema_takes_every_port(port: int) -> None:
    jsonschema.validate({"listen": [{"address": f"a:{port}"}]}, schema())


def test_the_schema_describes_every_key() -> None:
    definitions = schema()["$defs"]
    ours = [
        definitions[name] for name in ("Config", "ListenerConfig", "ServerTLS", "UpstreamConfig", "ClientTLS", "Limits")
    ]
    ours += [definitions[name] for name in ("BrokerConfig", "BrokerLimits", "MetricsConfig", "OpenTelemetryConfig")]
    for each in ours:
        for key, value in each["properties"].items():
            assert value.get("description"), key


def test_every_bound_has_a_name_and_a_default() -> None:
    assert msgspec.structs.asdict(Limits()).keys() == schema()["$defs"]["Limits"]["properties"].keys()


@pytest.mark.parametrize(
    ("address", "host", "port"),
    [("a:1", "a", 1), ("[::1]:5672", "::1", 5672), (":0", "", 0), ("127.0.0.1:65535", "127.0.0.1", 65535)],
)
def test_addresses_apart_and_together(address: str, host: str, port: int) -> None:
    assert split_address(address) == (host, port)
    assert join_address(host, port) == address
