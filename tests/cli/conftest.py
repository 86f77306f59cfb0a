"""The command, run in the process of the tests."""

import sys
from collections.abc import Iterator

import pytest
import structlog

from amqproxy.cli import main
from tests.cli.outcome import Amqproxy, Outcome
from tests.cli.process import BROKERS


@pytest.fixture
def amqproxy(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Amqproxy]:
    """Runs the command in this process."""

    def run(*arguments: str) -> Outcome:
        monkeypatch.setattr(sys, "argv", ["amqproxy", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        assert isinstance(ended.value.code, int)
        return Outcome(ended.value.code, *capsys.readouterr())

    yield run
    structlog.reset_defaults()


@pytest.fixture(autouse=True)
def _close_brokers() -> Iterator[None]:
    yield
    while BROKERS:
        BROKERS.pop().close()
