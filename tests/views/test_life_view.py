"""Lives of the messages in captures."""

from __future__ import annotations

from pathlib import Path

import msgspec

from amqproxy.capture.decode import read_decoded
from amqproxy.capture.selection.selection import Selection
from amqproxy.linking.message_life import KEPT_FIRST, MAX_DELIVERIES
from amqproxy.taps.note import NOTHING
from amqproxy.taps.trace.events import Settlement
from amqproxy.views.life_view import ALL, LifeView
from tests.linking.events import delivered, delivery_settled, opened, published

CAPTURES = Path(__file__).parent.parent.parent / "captures"


def _rendered(view: LifeView, capture: str) -> list[str]:
    return [*view.lines(read_decoded(CAPTURES / capture)), *view.finish()]


def test_one_message_in_json() -> None:
    view = LifeView(Selection(), "m-1", json=True)
    lives = [msgspec.json.decode(line) for line in _rendered(view, "publish-get-ack.pcapng")]
    assert view.shown == len(lives) == 2  # published twice with this id
    assert [life["publish"]["message_id"] for life in lives] == ["m-1", "m-1"]
    assert [[each["outcome"] for each in life["deliveries"]] for life in lives] == [["acked"], ["rejected"]]


def test_a_message_that_is_not_there() -> None:
    view = LifeView(Selection(), "m-2")
    assert _rendered(view, "publish-get-ack.pcapng") == []
    assert view.shown == 0


def test_those_that_are_forgotten_are_shown_when_that_happens() -> None:
    view, small = LifeView(Selection(), ALL, json=True), LifeView(Selection(), ALL, json=True, memory=1)
    lines = list(small.lines(read_decoded(CAPTURES / "confirms.pcapng")))
    assert lines
    assert sorted([*lines, *small.finish()]) == sorted(_rendered(view, "confirms.pcapng"))


def test_steps_are_followed_as_their_outcomes_are_known() -> None:
    view, whole = LifeView(Selection(), ALL, follows=True), LifeView(Selection(), ALL)
    rendered = [line for lines in _rendered(whole, "publish-get-ack.pcapng") for line in lines.splitlines()]
    decoded = list(read_decoded(CAPTURES / "publish-get-ack.pcapng"))
    followed = [line for each in decoded for line in view.lines([each])]
    assert not any("pending" in line for line in followed)
    followed += view.finish()
    assert sorted(set(followed)) == sorted(set(rendered))  # titles come again when another life was between
    assert len([line for line in followed if line.startswith("  ")]) == len(
        [line for line in rendered if line.startswith("  ")]
    )


def test_a_step_is_rendered_before_the_life_is_over() -> None:
    view = LifeView(Selection(), "m-1", follows=True, json=True)
    lives: list[list[int]] = []
    for each in read_decoded(CAPTURES / "publish-get-ack.pcapng"):
        lives += [
            [life["life"], len(life.get("deliveries", ()))] for life in map(msgspec.json.decode, view.lines([each]))
        ]
    first, second = sorted({life for life, _ in lives})
    assert lives[0][1] == 0
    assert [max(count for life, count in lives if life == which) for which in (first, second)] == [1, 1]
    assert list(view.finish()) == []
    assert view.shown == 2


def test_a_message_that_is_requeued_without_end_is_followed_in_bounded_memory_and_time() -> None:
    view = LifeView(Selection(), ALL, follows=True)
    listener = view._listener(1, "a-b")
    rendered: list[str] = []
    listener([opened(), published(0)], NOTHING)
    for tag in range(1, 10 * MAX_DELIVERIES + 1):
        listener([delivered(tag * 2000, tag=tag, redelivered=tag > 1)], NOTHING)
        listener([delivery_settled(tag * 2000 + 1000, Settlement.NACKED, tag, requeue=True)], NOTHING)
        if not tag % (2 * KEPT_FIRST):
            rendered += view.lines([])
    rendered += [*view.lines([]), *view.finish()]
    assert len([line for line in rendered if "← deliver" in line]) == 10 * MAX_DELIVERIES
    assert sum(map(len, view._known.values())) <= MAX_DELIVERIES + 2
