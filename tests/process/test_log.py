"""The log's two forms, on standard error."""

import errno
import json
import sys
import threading
from collections.abc import Iterator
from io import StringIO

import pytest
import structlog

from amqproxy.configuration.config import LogConfig
from amqproxy.process import log


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    log.stop()
    structlog.reset_defaults()


def written(capsys: pytest.CaptureFixture[str]) -> str:
    assert log.flush(10.0)
    return capsys.readouterr().err


def test_text(capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig())
    structlog.get_logger().bind(session=1).warning("connection closed", reason="gone away", code=None)
    assert log.flush(10.0)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "[warning  ] connection closed" in err
    assert "reason='gone away'" in err
    assert "code" not in err


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig(format="json"))
    structlog.get_logger().info("listening", address="[::1]:5673", tls=False)
    line = json.loads(written(capsys))
    assert line.pop("timestamp").endswith("Z")
    assert line == {"event": "listening", "address": "[::1]:5673", "tls": False, "level": "info"}


def test_within_a_program_it_is_the_standard_librarys(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Which shows warnings alone, unless it is configured otherwise."""
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
    log.start(LogConfig())
    log.logger().info("listening")
    assert "listening" in written(capsys)


@pytest.mark.parametrize(("level", "events"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_least_important_events(level: str, events: int, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig(level=level))  # type: ignore[arg-type]
    logger = structlog.get_logger()
    for write in (logger.debug, logger.info, logger.warning, logger.error):
        write("logged")
    assert written(capsys).count("logged") == events


@pytest.mark.parametrize("form", ["text", "json"])
def test_text_of_peers_stays_on_its_line(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig(format=form))  # type: ignore[arg-type]
    structlog.get_logger().warning("closed", reason="a\n2030-01-01 [info] forged\x1b[2J\x9b2J\udcff", by="é")
    err = written(capsys)
    assert err.count("\n") == 1
    assert not set(err) & set("\x1b\x9b\udcff")
    assert "forged" in err


@pytest.mark.parametrize("form", ["text", "json"])
def test_failures_have_their_traceback(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig(format=form))  # type: ignore[arg-type]
    try:
        raise ZeroDivisionError("by what?")
    except ZeroDivisionError:
        structlog.get_logger().exception("session failed", session=3)
    err = written(capsys)
    assert "Traceback" in err
    assert "ZeroDivisionError: by what?" in err


def test_no_terminal_obeys_a_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig())
    try:
        raise ValueError("\x1b[2J")
    except ValueError:
        structlog.get_logger().exception("failed")
    err = written(capsys)
    assert "\\x1b[2J" in err
    assert "\x1b" not in err


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_long_value_is_cut(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig(format=form))  # type: ignore[arg-type]
    for value in ("x" * 1_000_000, ["x" * 1_000_000]):
        structlog.get_logger().warning("closed", reason=value, code=501)
        err = written(capsys)
        assert log.LONGEST_VALUE < len(err) < log.LONGEST_VALUE + 500
        assert "more]" in err
        assert "501" in err
        assert form == "text" or json.loads(err)["code"] == 501


class Unspeakable:
    def __repr__(self) -> str:
        raise ZeroDivisionError


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_line_that_cannot_be_made_is_nobodys_trouble(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    log.start(LogConfig(format=form))  # type: ignore[arg-type]
    structlog.get_logger().warning("rule failed", by=Unspeakable())
    structlog.get_logger().warning("100%", by=1)
    first, second = written(capsys).splitlines()
    assert "rule failed [incomplete: ZeroDivisionError]" in first
    assert "100%" in second


class Full(StringIO):
    """A disk without room."""

    is_full = True

    def write(self, text: str) -> int:
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return super().write(text)


@pytest.mark.parametrize("form", ["text", "json"])
def test_missing_lines_are_counted_in_the_format_of_the_log(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = Full()
    monkeypatch.setattr("sys.stderr", stream)
    log.start(LogConfig(format=form))  # type: ignore[arg-type]
    for _ in range(3):
        structlog.get_logger().warning("logged")
    assert log.flush(10.0)
    assert log.dropped() == 3
    stream.is_full = False
    structlog.get_logger().warning("logged again")
    assert log.flush(10.0)
    first, second = stream.getvalue().splitlines()
    assert "logged again" in second
    if form == "json":
        line = json.loads(first)
        assert (line["level"], line["event"], line["count"]) == ("warning", "log lines dropped", 3)
    else:
        assert "[warning  ] log lines dropped" in first
        assert "count=3" in first


@pytest.mark.parametrize(
    ("environment", "is_terminal", "is_coloured"),
    [
        ({}, True, True),
        ({}, False, False),
        ({"NO_COLOR": "1"}, True, False),
        ({"NO_COLOR": ""}, True, True),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"TERM": "dumb"}, True, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
    ],
)
def test_colours(
    environment: dict[str, str], is_terminal: bool, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_COLOR", "FORCE_COLOR", "TERM"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    stream = StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: is_terminal)
    assert log.is_coloured(stream) == is_coloured
    assert not log.is_coloured(None)
    monkeypatch.setattr("sys.stderr", stream)
    log.start(LogConfig())
    structlog.get_logger().warning("logged")
    assert log.flush(10.0)
    assert ("\x1b[" in stream.getvalue()) == is_coloured


class Dying:
    def __del__(self) -> None:
        raise ZeroDivisionError("in a finalizer")


def test_what_python_itself_would_write_is_logged(capsys: pytest.CaptureFixture[str]) -> None:
    hooks = sys.unraisablehook, threading.excepthook

    def fail() -> None:
        raise ZeroDivisionError("in a thread")

    with log.started(LogConfig(format="json")):
        Dying()
        thread = threading.Thread(target=fail, name="some")
        thread.start()
        thread.join()
        first, second = map(json.loads, written(capsys).splitlines())
    assert (sys.unraisablehook, threading.excepthook) == hooks
    assert (first["event"], first["reason"]) == ("exception ignored", "ZeroDivisionError: in a finalizer")
    assert "Dying" in first["place"]
    assert (second["event"], second["reason"]) == ("thread failed", "ZeroDivisionError: in a thread")
    assert second["thread"] == "some"
