"""Quantities that are written as texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from amqproxy.configuration.config import ConfigError
from amqproxy.configuration.config_file import dump, load, parse
from amqproxy.configuration.schema import schema

CONFIG: dict[str, Any] = {
    "limits": {"drain_timeout": "1.5s", "frame_max": "64KiB", "print_memory": "10MB"},
    "broker": {"limits": {"consumer_timeout": "30m", "memory": "1GiB", "heartbeat": "1m"}},
    "rules": [
        {"name": "hold", "action": "hold", "timeout": "200ms"},
        {"name": "pace", "action": "limit", "of": "messages", "rate": "6000/m", "burst": 5, "max_delay": "2m"},
        {"name": "bytes", "action": "limit", "of": "bytes", "rate": "10KB/s"},
        {"name": "late", "action": "fault", "duration": "1h", "fault": {"kind": "latency", "delay": "5ms"}},
        {"name": "slow", "action": "fault", "fault": {"kind": "bandwidth", "rate": "64KiB/s"}},
        {"name": "cut", "action": "fault", "fault": {"kind": "limit_data", "octets": "1 MB"}},
        {"name": "small", "action": "rewrite", "tune": {"frame_max": "8KiB", "heartbeat": "10s"}},
        {"name": "large", "action": "refuse", "match": {"size": {"min": "10KB"}}},
    ],
}


def test_they_are_numbers_once_they_are_read() -> None:
    config = parse(yaml.safe_dump(CONFIG), Path("a.yaml"))
    assert (config.limits.drain_timeout, config.limits.frame_max, config.limits.print_memory) == (1.5, 65536, 10**7)
    assert config.broker.limits.consumer_timeout == 1800
    assert (config.broker.limits.memory, config.broker.limits.heartbeat) == (1 << 30, 60)
    hold, pace, octets, late, slow, cut, small, large = config.rules
    assert hold.timeout == 0.2
    assert (pace.max_delay, pace._measure._rate) == (120.0, 100.0)
    assert octets._measure._rate == 10_000
    assert (late.duration, late.fault.delay) == (3600.0, 0.005)
    assert slow.fault._bytes_per_second == 65536
    assert cut.fault.octets == "1 MB"
    assert (small.tune.frame_max, small.tune.heartbeat) == (8192, 10)
    assert large.match.size.min == "10KB"


def test_the_schema_takes_them() -> None:
    jsonschema.validate(CONFIG, schema())
    for wrong in ("soon", "5 parsecs", "-1s"):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({"limits": {"drain_timeout": wrong}}, schema())


def test_what_is_shown_is_read_again() -> None:
    config = parse(yaml.safe_dump(CONFIG), Path("a.yaml"))
    assert parse(dump(config), Path("b.yaml")) == config


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        ({"limits": {"drain_timeout": "5 parsecs"}}, "limits.drain_timeout: `5 parsecs` is not a time"),
        ({"limits": {"drain_timeout": "0s"}}, "limits.drain_timeout"),
        ({"limits": {"frame_max": "1B"}}, "limits.frame_max"),
        ({"limits": {"frame_max": "1.5B"}}, ""),
        ({"rules": [{"name": "r", "action": "hold", "timeout": "2h"}]}, "rules[0].timeout: Expected `float` <= 3600"),
        (
            {"rules": [{"name": "r", "action": "limit", "of": "messages", "rate": "5/parsec"}]},
            "rules[0].rate: `5/parsec` is not a rate",
        ),
        ({"rules": [{"name": "r", "action": "limit", "of": "messages", "rate": "0/s"}]}, "rules[0].rate: `0/s` lets"),
    ],
)
def test_an_error_names_its_key(keys: dict[str, Any], what: str) -> None:
    if not what:
        assert parse(yaml.safe_dump({"limits": {"frame_max": "4096.5B"}}), Path("a.yaml")).limits.frame_max == 4096
        return
    with pytest.raises(ConfigError) as raised:
        parse(yaml.safe_dump(keys), Path("a.yaml"))
    assert what in str(raised.value)


def test_an_error_about_a_rule_has_its_line_and_name(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    file.write_text("""
[[rules]]
name = "first"
action = "log"

[[rules]]
name = "second"
action = "hold"
timeout = "5 parsecs"
""")
    with pytest.raises(ConfigError) as raised:
        load(file)
    assert str(raised.value).startswith(f"{file}:9: rule 'second', rules[1].timeout: `5 parsecs` is not a time")
    file.write_text('[[rules]]\nname = "r"\naction = "log"\n\n[rules.match]\nexchange = 5\n')
    with pytest.raises(ConfigError) as raised:
        load(file)
    assert str(raised.value).startswith(f"{file}:6: rule 'r', rules[0].match.exchange: Expected")
    file.write_text('[[rules]]\nname = "r"\naction = "script"\nfile = "none.py"\n')
    with pytest.raises(ConfigError) as raised:
        load(file)
    assert str(raised.value).startswith(f"{file}:1: rule 'r', rules[0]: {tmp_path}/none.py cannot be read")


@pytest.mark.parametrize(
    ("keys", "what"),
    [
        (
            'routing_key = "{}"',
            "file:6: rule 'r', rules[0].routing_key: the text has 300 bytes, the limit is 255",
        ),
        ('queue = "{{time}}"', "file:6: rule 'r', rules[0].queue: `{{time}}`"),
        (
            "properties.set = {{ priority = 300 }}",
            "file:6: rule 'r', rules[0].properties: `priority` must be a number of 8 bits",
        ),
        ("fields.set = {{ mandatory = 300 }}", "file:6: rule 'r', rules[0].fields: `mandatory` must be true or false"),
    ],
)
def test_an_error_about_a_rewrite_names_its_key(keys: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    rule = keys.format("x" * 300)
    file.write_text(f'[[rules]]\nname = "r"\naction = "rewrite"\nmatch.method = "basic.publish"\n\n{rule}\n')
    with pytest.raises(ConfigError) as raised:
        load(file)
    assert str(raised.value).replace(str(file), "file").startswith(what.format())


def test_an_error_about_an_upstream_has_its_line_and_name(tmp_path: Path) -> None:
    file = tmp_path / "proxy.toml"
    one = '[upstreams.one]\naddress = "a:1"\npassword_env = "ONE"\n\n'
    file.write_text(one + '[upstreams.other]\naddress = "b:2"\nusername = "guest"\n')
    with pytest.raises(ConfigError) as raised:
        load(file)
    assert str(raised.value) == f"{file}:5: upstreams.other: unknown key `username`: did you mean `user`?"
