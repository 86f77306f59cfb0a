"""The log's two forms, on standard error."""

import json
from collections.abc import Iterator

import pytest
import structlog

from amqproxy import log
from amqproxy.config import Log


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log())
    structlog.get_logger().bind(session=1).warning("connection closed", reason="gone away", code=None)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "[warning  ] connection closed" in err
    assert "reason='gone away'" in err
    assert "code" not in err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log(format="json"))
    structlog.get_logger().info("listening", address="[::1]:5673", tls=False)
    line = json.loads(capsys.readouterr().err)
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "listening", "address": "[::1]:5673", "tls": False, "level": "info"}


def test_within_a_program_it_is_the_standard_librarys(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Which shows warnings alone, unless it is told otherwise."""
    structlog.reset_defaults()
    log.logger().debug("client connected")
    log.logger().warning("connection refused", limit=5, reason=None)
    try:
        raise KeyError("k")
    except KeyError:
        log.logger().exception("connection failed")
    first, second = caplog.records
    assert (first.name, first.levelname, first.getMessage()) == ("amqproxy", "WARNING", "connection refused limit=5")
    assert second.getMessage().startswith("connection failed\nTraceback")
    assert "KeyError: 'k'" in second.getMessage()
    assert capsys.readouterr().out == ""


def test_where_structlog_is_set_up_it_is_that(capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log())
    log.logger().info("listening")
    assert "listening" in capsys.readouterr().err


@pytest.mark.parametrize(("level", "events"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_least_important_events(level: str, events: int, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log(level=level))  # type: ignore[arg-type]
    logger = structlog.get_logger()
    for say in (logger.debug, logger.info, logger.warning, logger.error):
        say("said")
    assert capsys.readouterr().err.count("said") == events


@pytest.mark.parametrize("form", ["text", "json"])
def test_what_peers_say_stays_on_its_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log(format=form))  # type: ignore[arg-type]
    structlog.get_logger().warning("closed", reason="a\n2030-01-01 [info] forged\x1b[2J\x9b2J\udcff", by="é")
    err = capsys.readouterr().err
    assert err.count("\n") == 1
    assert not set(err) & set("\x1b\x9b\udcff")
    assert "forged" in err


@pytest.mark.parametrize("form", ["text", "json"])
def test_failures_have_their_traceback(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(Log(format=form))  # type: ignore[arg-type]
    try:
        raise ZeroDivisionError("by what?")
    except ZeroDivisionError:
        structlog.get_logger().exception("session failed", session=3)
    err = capsys.readouterr().err
    assert "Traceback" in err
    assert "ZeroDivisionError: by what?" in err
