"""What was perhaps meant, by what the place in the config may hold."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.configuration.config import Config
from amqproxy.configuration.config_file import explained


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"limts": {}}, "unknown key `limts`: did you mean `limits`?"),
        ({"limits": {"conections": 5}}, "limits: unknown key `conections`: did you mean `connections`?"),
        ({"limits": {"zzz": 5}}, "limits: unknown key `zzz`"),
        ({"listen": [{"tls": {"cert": "a"}}]}, "listen[0].tls: unknown key `cert`"),
        ({"log": {"level": "warn"}}, "log.level: Invalid enum value 'warn': did you mean `warning`?"),
        ({"log": {"level": "x"}}, "log.level: Invalid enum value 'x': it is one of debug, error, info, warning"),
        ({"rules": [{"name": "a", "action": "alow"}]}, "rules[0].action: Invalid value 'alow': did you mean `allow`?"),
        ({"rules": [{"name": "a", "action": "alow", "match": {"exchange": "x"}}]}, "did you mean `allow`?"),
        (
            {"rules": [{"name": "a", "action": "allow", "match": {"exchang": "x"}}]},
            "rules[0].match: unknown key `exchang`: did you mean `exchange`?",
        ),
        (
            {"rules": [{"name": "a", "action": "refuse", "txt": "no"}]},
            "rules[0]: unknown key `txt`: did you mean `text`?",
        ),
        (
            {"rules": [{"name": "a", "action": "allow", "match": {"sender": "upstream"}}]},
            "rules[0].match.sender: Invalid enum value 'upstream': it is one of client, server",
        ),
        (
            {"rules": [{"name": "a", "action": "allow", "match": {"time": {"days": ["monday"]}}}]},
            "rules[0].match.time.days[0]: Invalid enum value 'monday': did you mean `mon`?",
        ),
        (
            {"rules": [{"name": "a", "action": "allow", "match": {"headers": {"x": None}}}]},
            "rules[0].match.headers[...]: Expected `bool | int | float | str | array`, got `null`",
        ),
        ({"rules": 3}, "rules: Expected `array`, got `int`"),
        ([], "Expected `object`, got `array`"),
    ],
)
def test_hints(data: Any, expected: str) -> None:
    with pytest.raises(msgspec.ValidationError) as raised:
        msgspec.convert(data, Config)
    assert expected in explained(raised.value, Config, data)
