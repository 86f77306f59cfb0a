"""The client, against a socket with prepared answers."""

from pathlib import Path

import pytest

from amqproxy.control.control_client import ControlClient
from amqproxy.control.request_error import RequestError
from tests.control.answering import answering


def test_what_is_asked_and_answered(tmp_path: Path) -> None:
    path = tmp_path / "control"
    answers = b'{"ok":true,"rules":3}\n', b'{"ok":false,"error":"not-held","text":"no"}\n'
    with answering(path, *answers) as requests, ControlClient(path) as asked:
        assert asked.ask("reload") == {"ok": True, "rules": 3}
        with pytest.raises(RequestError, match="no") as wrong:
            asked.ask("release", session=1, code=None)
        assert wrong.value.name == "not-held"
    assert requests == [b'{"request":"reload"}\n', b'{"request":"release","session":1}\n']


def test_events(tmp_path: Path) -> None:
    path = tmp_path / "control"
    lines = b'{"ok":true}\n{"event":"lost","count":1}\n{"event":"lost","count":2}\n'
    with answering(path, lines), ControlClient(path) as asked:
        asked.ask("watch")
        assert [event["count"] for event in asked.events()] == [1, 2]


def test_a_proxy_that_goes_away(tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, b""), ControlClient(path) as asked, pytest.raises(RequestError) as wrong:
        asked.ask("reload")
    assert wrong.value.name == "unreachable"


def test_no_server(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"no amqproxy answers at .*No such file") as wrong:
        ControlClient(tmp_path / "control")
    assert wrong.value.name == "unreachable"
