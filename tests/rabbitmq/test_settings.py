"""Keys of rabbitmq.conf."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from amqproxy.rabbitmq.settings import REMOVED, permitted_features, settings_of
from tests.real.rabbitmq import RabbitMQ
from tests.real.rabbitmq_installation import installation


def test_a_file() -> None:
    settings = settings_of("# hello\nheartbeat = 60\n\ndeprecated_features.permit.global_qos = true # for now\n")
    assert settings == {"heartbeat": "60", "deprecated_features.permit.global_qos": "true"}
    assert permitted_features(settings) == {"global_qos": True}


def test_a_line_without_a_value() -> None:
    with pytest.raises(ValueError, match="line 2: 'heartbeat' is not KEY = VALUE"):
        settings_of("\nheartbeat\n")


def test_an_error_shows_the_beginning_of_a_long_line() -> None:
    with pytest.raises(ValueError, match=r"line 1: 'x{80}' is not KEY = VALUE"):
        settings_of("x" * 1_000_000)


@pytest.mark.parametrize("separator", ["\x0b", "\x0c", "\x85", "\u2028"])
def test_only_line_feeds_end_a_line(separator: str) -> None:
    assert settings_of(f"# a{separator}b\r\nheartbeat = 60\r\n") == {"heartbeat": "60"}


@pytest.mark.real
def test_rabbitmq_4_does_not_start_with_removed_keys(tmp_path: Path) -> None:
    node = RabbitMQ(tmp_path, installation("4.3"), dict.fromkeys(REMOVED, "1"))
    with pytest.raises(RuntimeError):
        node.start()
    assert set(re.findall(r"unknown variable: (\S+)", node.log)) == set(REMOVED)
