"""`amqproxy version`."""

from amqproxy import __version__
from tests.cli.outcome import Amqproxy


def test_version(amqproxy: Amqproxy) -> None:
    assert amqproxy("--version").out == f"{__version__}\n"
    assert amqproxy("version").out in (f"amqproxy {__version__} (compiled)\n", f"amqproxy {__version__} (plain)\n")
