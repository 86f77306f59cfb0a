"""`amqproxy tail`: what it asks, of a socket with prepared answers, and what it prints."""

from __future__ import annotations

from binascii import b2a_base64
from pathlib import Path

import msgspec
import pytest

from amqproxy.cli.failure import FAILED, MISUSED
from tests.cli.outcome import Amqproxy
from tests.control.answering import answering

WHERE = {"ts_ns": 0, "stream": 1, "connection": "a:1-b:2"}
FRAME = WHERE | {"from": "client", "channel": 1, "type": "method", "method": "tx.select", "arguments": {}}
MESSAGE = WHERE | {"from": "client", "channel": 1, "type": "publish", "outcome": "sent", "size": 3}
FINDING = WHERE | {"kind": "late-ack", "severity": "warning", "text": "late", "why": "It is.", "remedy": "Hurry."}


def lines(*events: dict[str, object]) -> bytes:
    return b"".join(msgspec.json.encode(each) + b"\n" for each in ({"ok": True}, *events))


@pytest.mark.parametrize(
    ("options", "asked", "event", "printed"),
    [
        ((), {"frames": True}, {"event": "frame", "record": FRAME}, "00:00:00.000000 #1   → ch 1    tx.select\n"),
        (
            ("--messages", "--filter", "size > 1", "--body"),
            {"filter": "size > 1", "body": 1024, "messages": True},
            {"event": "message", "record": MESSAGE},
            "00:00:00.000000 #1   → ch 1    publish  3 bytes  ⇒ sent\n",
        ),
        (
            ("--fields", "type,body,arguments.queue,from", "--header"),
            {"frames": True, "body": 1024},
            {"event": "frame", "record": FRAME},
            "type\tbody\targuments.queue\tfrom\nmethod\t\t\tclient\n",
        ),
        (
            ("--messages", "--fields", "outcome,size", "--json"),
            {"messages": True},
            {"event": "message", "record": MESSAGE},
            '{"outcome":"sent","size":3}\n',
        ),
        (
            ("--findings",),
            {"findings": True},
            {"event": "finding", "record": FINDING},
            "00:00:00.000000 #1   !         WARNING late-ack: late\n"
            "                       why: It is.\n"
            "                       do:  Hurry.\n",
        ),
    ],
)
def test_what_is_followed(
    options: tuple[str, ...],
    asked: dict[str, object],
    event: dict[str, object],
    printed: str,
    amqproxy: Amqproxy,
    tmp_path: Path,
) -> None:
    path = tmp_path / "control"
    with answering(path, lines(event)) as requests:
        code, out, err = amqproxy("tail", "--socket", str(path), *options)
    assert (code, out, err) == (FAILED, printed, "amqproxy: tail: the proxy is gone\n")
    assert [msgspec.json.decode(each) for each in requests] == [{"request": "subscribe", "body": 0} | asked]


def test_lives_are_followed(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    packets = b2a_base64(Path("captures/publish-get-ack.pcapng").read_bytes(), newline=False).decode()
    events = lines({"event": "packets", "data": packets}, {"event": "lost", "count": 2})
    with answering(path, events) as requests:
        code, out, err = amqproxy("tail", "--socket", str(path), "--life", "m-1", "--since-start")
    assert code == FAILED
    assert err == "amqproxy: 2 skipped: the output is too slow\namqproxy: tail: the proxy is gone\n"
    assert [msgspec.json.decode(each) for each in requests] == [
        {"request": "subscribe", "packets": True, "legs": "once", "from": "start"}
    ]
    assert out.count("→ publish ") == 2
    assert "⇒ acked" in out
    assert "⇒ rejected" in out


def test_why_a_filter_fails(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, lines({"event": "warning", "text": "'x' fails"})):
        code, out, err = amqproxy("tail", "--filter", "x", "--socket", str(path))
    assert (code, out) == (FAILED, "")
    assert err == "amqproxy: --filter: 'x' fails\namqproxy: tail: the proxy is gone\n"


def test_json_and_what_was_lost(amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    with answering(path, lines({"event": "message", "record": MESSAGE}, {"event": "lost", "count": 4})):
        code, out, err = amqproxy("tail", "--messages", "--json", "--socket", str(path))
    assert code == FAILED
    assert msgspec.json.decode(out) == MESSAGE
    assert err.splitlines()[0] == "amqproxy: 4 skipped: the output is too slow"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--findings", "--filter", "size > 1"), "with --findings it needs --messages"),
        ((), "name the proxy's --socket"),
        (("--socket", "x", "--body=-1"), "give a number of at least 0"),
        (("--socket", "x", "--fields", "outcome"), "--fields: there is no field outcome"),
        (("--socket", "x", "--header"), "it needs --fields"),
        (("--socket", "x", "--life", "m-1", "--messages"), "--life is a view of its own"),
        (("--socket", "x", "--life", "m-1", "--header"), "--life is a view of its own"),
    ],
)
def test_what_is_wrong(options: tuple[str, ...], text: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("tail", *options)
    assert (code, out) == (MISUSED, "")
    assert text in err


@pytest.mark.parametrize(("error", "code"), [("wrong-filter", MISUSED), ("no-ring", FAILED)])
def test_a_wrong_filter_is_misuse(error: str, code: int, amqproxy: Amqproxy, tmp_path: Path) -> None:
    path = tmp_path / "control"
    answer = msgspec.json.encode({"ok": False, "error": error, "text": "there is no `x`"}) + b"\n"
    with answering(path, answer):
        outcome = amqproxy("tail", "--filter", "x", "--socket", str(path))
    place = "--filter: " if code == MISUSED else ""
    assert outcome == (code, "", f"amqproxy: {place}there is no `x`\n")
