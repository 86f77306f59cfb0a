"""Progress of the pipeline's jobs where standard error is not a terminal."""

from __future__ import annotations

import re

import pytest

from amqproxy.cli.pipeline import task_progress
from amqproxy.cli.pipeline.task_progress import TaskProgress
from tests.real.poll import until


class Engine:
    """A session with half of its work done."""

    def progress(self) -> tuple[int, int]:
        return 2, 4


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_progress, "LINE_SECONDS", 0.01)


def test_a_log_gets_a_line_now_and_then(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqproxy.pipeline.engine.engine_of", lambda session: session)
    seen: list[str] = []
    with TaskProgress() as progress:
        progress.begin("settle", Engine())  # type: ignore[arg-type]
        until(lambda: _lines(seen, capsys) >= 2, "two lines")
    first = "".join(seen).splitlines()[0]
    assert re.fullmatch(r"amqproxy: settle: \d+ s, 2 of 4 tasks", first)


def test_nothing_is_told_of_waiting(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def line(progress: TaskProgress) -> str:
        asked.append(None)
        return original(progress)

    original = TaskProgress._line
    monkeypatch.setattr(TaskProgress, "_line", line)
    with TaskProgress() as progress:
        progress.begin("watching captures", is_waiting=True)
        until(lambda: len(asked) > 3, "some looks")
    assert capsys.readouterr().err == ""


def _lines(seen: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """Number of lines so far."""
    seen.append(capsys.readouterr().err)
    return "".join(seen).count("\n")
