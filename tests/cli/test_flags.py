"""Flags take precedence over the file."""

from pathlib import Path

import pytest

from amqproxy.cli.flags import merged, merged_broker
from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.config_file import parse


def test_flags_go_before_the_file(tmp_path: Path) -> None:
    config = parse(
        "upstream: {address: 'a:1', tls: {verify: false}, pool: {}}\nlog: {level: error}\nlisten: [{address: 'b:2'}]",
        Path("a.yaml"),
    )
    both = merged(config, "c:3", "d:4", ":5", "json", None)
    assert [each.address for each in both.listen] == ["c:3"]
    assert both.upstream.address == "d:4"
    assert both.upstream.tls == config.upstream.tls
    assert both.upstream.pool == config.upstream.pool is not None
    assert both.metrics is not None
    assert both.metrics.address == ":5"
    assert (both.log.format, both.log.level) == ("json", "error")
    assert merged(config, None, None, None, None, None) == config


def test_flags_of_the_broker_go_before_the_file() -> None:
    config = parse("broker: {listen: [{address: 'b:2'}, {address: 'c:3'}], data: d}", Path("a.yaml")).broker
    assert merged_broker(config, None, None, None, {}) == config
    both = merged_broker(config, "e:5", Path("f"), Path("g"), {})
    assert ([each.address for each in both.listen], both.data, both.definitions) == (["e:5"], "f", "g")
    tls = {"certificate": "a.pem", "key": "a.key", "client_ca": "ca.pem"}
    (listener,) = merged_broker(config, None, None, None, tls).listen
    assert listener.address == "b:2"
    assert listener.tls is not None
    assert listener.tls.client_ca == "ca.pem"


def test_a_version_without_the_features_in_the_file_is_an_error() -> None:
    text = "broker: {profile: '4.3', deprecated_features: {amqp_filter_set_bug: true}}"
    with pytest.raises(ConfigError, match=r"RabbitMQ 3\.10 has no deprecated feature 'amqp_filter_set_bug'"):
        merged_broker(parse(text, Path("a.yaml")).broker, None, None, None, {}, "3.10")
