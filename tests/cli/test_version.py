"""`amqproxy version`."""

from amqproxy import __version__
from tests.cli.outcome import Amqproxy


def test_version(amqproxy: Amqproxy) -> None:
    assert amqproxy("--version").out == f"{__version__}\n"
    first, *_ = amqproxy("version").out.splitlines()
    assert first in (f"amqproxy {__version__} (compiled)", f"amqproxy {__version__} (plain)")
