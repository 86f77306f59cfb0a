"""`amqproxy top`: how it begins."""

import importlib.util
from pathlib import Path

import pytest

from amqproxy.cli.failure import FAILED, MISUSED
from tests.cli.outcome import Amqproxy


@pytest.mark.parametrize(
    ("options", "text"),
    [((), "name the proxy's --socket"), (("--socket", "x", "--interval", "0"), "a number of seconds above 0")],
)
def test_misuse(options: tuple[str, ...], text: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("top", *options)
    assert (code, out) == (MISUSED, "")
    assert text in err


def test_textual_is_an_extra(amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    code, out, err = amqproxy("top", "--socket", str(tmp_path / "control"))
    assert (code, out) == (FAILED, "")
    assert err == 'amqproxy: top: needs textual, which is not installed: pip install "amqproxy[top]"\n'


def test_it_needs_a_terminal(amqproxy: Amqproxy, tmp_path: Path) -> None:
    code, out, err = amqproxy("top", "--socket", str(tmp_path / "control"))
    assert (code, out) == (MISUSED, "")
    assert err == "amqproxy: top: needs a terminal; `amqproxy control connections` prints a list once\n"
