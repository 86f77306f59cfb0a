"""What a person reads."""

from typing import Any

import pytest

from amqproxy.control import formatting

HELD: dict[str, Any] = {
    "session": 3,
    "number": 12,
    "connection": "c-p",
    "rule": "every refund",
    "since": 0.0,
    "until": 0.0,
    "on_timeout": "refuse",
    "will": "pass",
    "from": "client",
    "channel": 1,
    "method": "basic.publish",
    "arguments": {"exchange": "", "routing_key": "refunds.new", "mandatory": False},
    "properties": {"priority": 1},
    "size": 4,
    "body": "b\x1b[",
}


def test_rules() -> None:
    entry = {"name": "a rule", "action": "acl", "mode": "enforce", "hits": 2, "shadow_hits": 0, "errors": 0}
    assert list(formatting.rules([entry, entry | {"mode": "shadow", "shadow_hits": 5, "errors": 1}])) == [
        '"a rule"  acl: 2 hits',
        '"a rule"  acl, in shadow: 5 hits, failed 1 times',
    ]


def test_sessions() -> None:
    entry = {"session": 1, "connection": "c-p", "state": "open", "user": "guest", "vhost": "/", "product": "pika"}
    entry |= {"name": "", "channels": 2, "held": 1}
    assert list(formatting.sessions([entry, entry | {"held": 0}])) == [
        "#1 c-p open, 2 channels, 1 held  user=guest vhost=/ product=pika",
        "#1 c-p open, 2 channels  user=guest vhost=/ product=pika",
    ]


@pytest.mark.parametrize(("left", "shown"), [(90.2, "90"), (-5.0, "0")])
def test_held(left: float, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqproxy.control.formatting.time.time", lambda: 1e9)
    assert list(formatting.held(HELD | {"until": 1e9 + left})) == [
        f'3 12  "every refund", is refused in {shown} s',
        "    → ch 1  basic.publish  routing_key=refunds.new",
        "      priority=1",
        '      4 bytes: "b\\u001b["',
    ]


def test_a_held_body_that_an_addon_reads() -> None:
    assert '      4 bytes of form: {"a": [1]}' in formatting.held(
        HELD | {"decoded": {"form": "form", "value": {"a": [1]}}}
    )


def test_held_by_the_broker_and_no_message() -> None:
    entry = {name: value for name, value in HELD.items() if name not in ("properties", "size", "body")}
    entry |= {"from": "server", "on_timeout": "pass", "will": "go no further", "method": "queue.declare-ok"}
    first, *others = formatting.held(entry)
    assert "goes on in 0 s" in first
    assert others == [
        "    ← ch 1  queue.declare-ok  routing_key=refunds.new",
        "      a rule behind lets it go no further",
    ]
