"""The command, as the tests of it run it."""

from tests.cli.conftest import amqproxy

__all__ = ["amqproxy"]
