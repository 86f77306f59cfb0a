"""What one client of the control socket follows."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from amqproxy.amqp091.methods import BasicAck, BasicPublish, ChannelOpen
from amqproxy.amqp091.transitions import CLIENT
from amqproxy.control import subscription as module
from amqproxy.control.request import Subscribe
from amqproxy.control.request_error import RequestError
from amqproxy.control.subscription import Subscription
from amqproxy.taps.metrics import Metrics
from tests.taps.sessions import Session
from tests.taps.trace.traced import frames_of


class Followed:
    def __init__(self, **request: Any) -> None:
        self.metrics = Metrics()
        self.woken = 0
        self.subscription = Subscription(Subscribe(**request), self.metrics, self._wake)

    def _wake(self) -> None:
        self.woken += 1

    def saw(self, *methods: Any, **content: Any) -> None:
        frames = [frame for method in methods for frame in frames_of(1, method, **content)]
        self.subscription.tap.saw_frames(Session(), CLIENT, frames)

    def events(self) -> list[dict[str, Any]]:
        return [msgspec.json.decode(each) for each in self.subscription.events()]


def test_frames() -> None:
    followed = Followed(frames=True, body=2)
    followed.saw(BasicPublish(exchange="e"), body=b"hello")
    events = followed.events()
    assert [(each["event"], each["record"]["type"]) for each in events] == [
        ("frame", "method"),
        ("frame", "header"),
        ("frame", "body"),
    ]
    assert events[2]["record"]["body"] == "he"
    assert followed.woken == 1
    assert followed.events() == []


def test_frames_of_what_a_filter_selects() -> None:
    followed = Followed(frames=True, filter="exchange == 'e'")
    followed.saw(BasicPublish(exchange="f"))
    followed.saw(BasicPublish(exchange="e"))
    assert [each["record"].get("method") for each in followed.events()] == ["basic.publish", None]


def test_messages_and_findings() -> None:
    followed = Followed(messages=True, findings=True, filter="body == 'hello'")
    followed.saw(ChannelOpen(), BasicPublish(), body=b"hello")
    followed.saw(BasicPublish(), body=b"other")
    followed.saw(BasicAck(9))
    events = followed.events()
    assert [(each["event"], each["record"].get("type") or each["record"]["kind"]) for each in events] == [
        ("message", "publish"),
        ("message", "settle"),
        ("finding", "unknown-ack"),
    ]


def test_who_is_too_slow_gets_the_newest_and_how_many_were_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_FOLLOWED", 3)
    followed = Followed(messages=True)
    for number in range(10):
        followed.saw(BasicPublish(routing_key=str(number)))
    events = followed.events()
    # Its beginning was not seen, which is the oldest.
    assert [each["record"]["routing_key"] for each in events[:-1]] == ["7", "8", "9"]
    assert events[-1] == {"event": "lost", "count": 8}
    value = followed.metrics.registry.get_sample_value("amqproxy_records_dropped_total", {"tap": "tail"})
    assert value == 8
    assert followed.events() == []


def test_a_wrong_filter() -> None:
    with pytest.raises(RequestError, match="did you mean") as refused:
        Followed(messages=True, filter="exchang == 'e'")
    assert refused.value.name == "wrong-filter"


def test_what_is_closed_makes_no_more() -> None:
    followed = Followed(frames=True)
    followed.subscription.close()
    followed.saw(BasicPublish())
    assert followed.events() == []
