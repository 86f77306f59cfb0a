"""`amqproxy control`: what it asks, of a socket with prepared answers, and what it prints."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from amqproxy.cli.failure import FAILED, MISUSED
from tests.cli.outcome import Amqproxy
from tests.control.answering import answering

RULE = {"name": "look", "action": "hold", "mode": "enforce", "hits": 3, "shadow_hits": 0, "errors": 0}
OK = b'{"ok":true}\n'


def encoded(answer: dict[str, Any]) -> bytes:
    return msgspec.json.encode({"ok": True} | answer) + b"\n"


def test_it_is_asked_through_the_socket_that_the_config_names(amqproxy: Amqproxy, tmp_path: Path) -> None:
    config = tmp_path / "some.yaml"
    config.write_text("control: {path: control}")
    with answering(tmp_path / "control", encoded({"rules": 1})) as requests:
        assert amqproxy("control", "reload", "--config", str(config)) == (0, "", "1 rule\n")
    assert requests == [b'{"request":"reload"}\n']
    with answering(tmp_path / "other", encoded({"rules": 2, "restart": ["limits.connections"]})):
        warnings = "2 rules\nlimits.connections has changed: that needs a restart\n"
        assert amqproxy("control", "reload", "--socket", str(tmp_path / "other")) == (0, "", warnings)


@pytest.mark.parametrize(("options", "printed"), [((), "look  hold: 3 hits\n"), (("--json",), None)])
def test_rules(options: tuple[str, ...], printed: str | None, amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"rules": [RULE, RULE]})):
        code, out, err = amqproxy("control", "rules", "--socket", str(path), *options)
    assert (code, err) == (0, "")
    assert out == 2 * (printed or msgspec.json.encode(RULE).decode() + "\n")


def test_watching(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    lines = encoded({"held": [{"number": 1}]})
    lines += b'{"event":"held","held":{"number":2}}\n{"event":"lost","count":4}\n'
    with answering(path, lines) as requests:
        code, out, err = amqproxy("control", "held", "--watch", "--body", "5", "--json", "--socket", str(path))
    assert (code, out) == (0, '{"number":1}\n{"number":2}\n')
    assert err == "amqproxy: 4 more were held and are not shown\n"
    assert requests == [b'{"request":"watch","body":5}\n']


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        ([], {"verdict": "pass"}),
        (["--drop"], {"verdict": "drop"}),
        (
            ["--refuse", "--with", "nack", "--code", "403", "--text", "no"],
            {"verdict": "refuse", "with": "nack", "code": 403, "text": "no"},
        ),
        (
            ["--set", "routing_key=other", "--set", "mandatory=true", "--property", "priority=5", "--header", "a=null"],
            {
                "verdict": "pass",
                "edit": {
                    "fields": {"routing_key": "other", "mandatory": True},
                    "properties": {"priority": 5},
                    "headers": {"a": None},
                },
            },
        ),
        (["--set", "routing_key=a=b"], {"verdict": "pass", "edit": {"fields": {"routing_key": "a=b"}}}),
        (["--body", ""], {"verdict": "pass", "edit": {"body": ""}}),
        (["--body-file", "binary"], {"verdict": "pass", "edit": {"body": {"base64": "AP8="}}}),
    ],
)
def test_release(
    options: list[str], asked: dict[str, Any], amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("binary").write_bytes(b"\0\xff")
    with answering(tmp_path / "control", OK) as requests:
        assert amqproxy("control", "release", "7", "2", *options, "--socket", "control") == (0, "", "")
    assert [msgspec.json.decode(line) for line in requests] == [
        {"request": "release", "session": 7, "number": 2, **asked}
    ]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["reload"], "name the proxy's --socket, or the --config that names it"),
        (["rules", "--socket", "a", "--config", "some.yaml"], "give either --socket or --config, not both"),
        (["sessions", "--config", "some.yaml"], "some.yaml has no [control]: its proxy has no control socket"),
        (["release", "1", "1", "--drop", "--refuse"], "give --drop or --refuse, not both"),
        (["release", "1", "1", "--set", "=a"], "--set =a: write NAME=VALUE"),
        (["release", "1", "1", "--header", "a"], "--header a: write NAME=VALUE"),
        (["release", "1", "1", "--body", "a", "--body-file", "b"], "give --body or --body-file, not both"),
    ],
)
def test_misuse(
    arguments: list[str], expected: str, amqproxy: Amqproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("some.yaml").write_text("{}")
    code, out, err = amqproxy("control", *arguments)
    assert (code, out) == (MISUSED, "")
    assert expected in err


def test_an_error_of_the_proxy_and_a_socket_without_a_proxy(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, b'{"ok":false,"error":"not-held","text":"nothing waits as 2"}\n'):
        refused = amqproxy("control", "release", "7", "2", "--socket", str(path))
    assert refused == (FAILED, "", "amqproxy: nothing waits as 2\n")
    missing = amqproxy("control", "release", "7", "2", "--body-file", str(tmp_path / "missing"), "--socket", str(path))
    assert missing == (FAILED, "", f"amqproxy: {tmp_path / 'missing'}: cannot be read: No such file or directory\n")
    code, out, err = amqproxy("control", "sessions", "--socket", str(tmp_path / "missing"))
    assert (code, out) == (FAILED, "")
    assert err.startswith("amqproxy: no amqproxy answers at ")


def test_a_session_is_closed(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, OK) as requests:
        assert amqproxy("control", "close", "3", "--text", "later", "--socket", str(path)) == (0, "", "")
    assert requests == [b'{"request":"close","session":3,"text":"later"}\n']


RULES = '[[rules]]\nname = "a"\naction = "allow"\n'


@pytest.mark.parametrize(
    ("request_", "said"), [("rules-set", "2 rules, until the next reload"), ("rules-check", "2 rules")]
)
def test_rules_are_sent_as_they_stand_in_the_file(request_: str, said: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    path, file = tmp_path / "control", tmp_path / "my.toml"
    file.write_text(RULES)
    with answering(path, encoded({"rules": 2, "warnings": ["careful"]})) as requests:
        code, out, err = amqproxy("control", request_, str(file), "--socket", str(path))
    assert (code, out, err) == (0, "", f"{file}: warning: careful\n{said}\n")
    asked = msgspec.json.decode(requests[0])
    assert asked == {"request": request_, "text": RULES, "format": "toml", "name": str(file)}


def test_rules_in_a_file_of_another_kind(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    for name, reason in [("rules.txt", "the name must end in"), ("none.toml", "cannot be read")]:
        with answering(path):
            code, _, err = amqproxy("control", "rules-set", str(tmp_path / name), "--socket", str(path))
        assert code != 0
        assert reason in err
        path.unlink()


@pytest.mark.parametrize(
    ("options", "printed"),
    [((), "rules:\n- name: a\n  action: allow\n"), (("--json",), '{"rules":[{"name":"a","action":"allow"}]}\n')],
)
def test_rules_in_force(options: tuple[str, ...], printed: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, encoded({"rules": [{"name": "a", "action": "allow"}], "source": "control"})):
        code, out, err = amqproxy("control", "rules-get", "--socket", str(path), *options)
    assert (code, out, err) == (0, printed, "set through the control socket, until the next reload\n")


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["rules-shadow", "a b"], b'{"request":"rules-shadow","rule":"a b"}\n'),
        (["rules-enforce", "a b"], b'{"request":"rules-enforce","rule":"a b"}\n'),
        (["rules-end", "a b"], b'{"request":"rules-end","rule":"a b"}\n'),
        (["rules-remove", "a b"], b'{"request":"rules-remove","rule":"a b"}\n'),
        (["close", "3", "--channel", "2"], b'{"request":"close","session":3,"channel":2}\n'),
        (["pause", "3"], b'{"request":"pause","session":3}\n'),
        (["resume", "3", "--channel", "2"], b'{"request":"resume","session":3,"channel":2}\n'),
    ],
)
def test_one_rule_or_session(words: list[str], asked: bytes, amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, OK) as requests:
        assert amqproxy("control", *words, "--socket", str(path)) == (0, "", "")
    assert requests == [asked]
