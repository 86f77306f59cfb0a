"""Events until they are taken, and the listener that is shown them before."""

from __future__ import annotations

from collections.abc import Sequence

from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.taps.trace.event_queue import EventQueue
from amqproxy.taps.trace.events import BlockingStarted, ChannelClosed, TraceEvent, closer


def event(reason: str) -> TraceEvent:
    return BlockingStarted(ts_ns=0, reason=reason)


class Audience:
    def __init__(self) -> None:
        self.shown: list[tuple[list[str], Peer | None, int]] = []

    def __call__(self, events: Sequence[TraceEvent], sender: Peer | None, number: int) -> None:
        self.shown.append(([each.reason for each in events if isinstance(each, BlockingStarted)], sender, number))


def test_what_is_taken_is_gone_and_the_list_stays_the_same() -> None:
    queue = EventQueue()
    shared = queue.events
    shared.append(event("a"))
    taken = queue.take()
    assert taken == [event("a")]
    assert queue.events is shared
    assert queue.take() == []
    assert taken == [event("a")]


def test_the_proxy_is_named_in_the_closes_of_its_frames_only() -> None:
    queue = EventQueue()
    for number, is_by_proxy in ((1, False), (2, True), (3, False)):
        queue.events.append(ChannelClosed(ts_ns=0, channel=number, by=SERVER, code=0, text=""))
        queue.end_frame(SERVER, is_heartbeat=False, is_by_proxy=is_by_proxy)
    closed = [each for each in queue.take() if isinstance(each, ChannelClosed)]
    assert [closer(each) for each in closed] == ["server", "proxy", "server"]


def test_a_listener_is_shown_each_frame_with_its_number() -> None:
    queue, audience = EventQueue(), Audience()
    queue.listen(audience)
    queue.end_frame(CLIENT, is_heartbeat=False)
    queue.events.append(event("a"))
    queue.end_frame(CLIENT, is_heartbeat=False)
    queue.end_frame(SERVER, is_heartbeat=True)
    queue.events += [event("b"), event("c")]
    queue.end_frame(SERVER, is_heartbeat=False)
    queue.events.append(event("d"))
    assert queue.take() == [event(each) for each in "abcd"]
    assert audience.shown == [(["a"], CLIENT, 2), (["b", "c"], SERVER, 1), (["d"], None, 0)]
    queue.events.append(event("e"))
    queue.end_frame(CLIENT, is_heartbeat=False)
    assert audience.shown[3:] == [(["e"], CLIENT, 3)]


def test_a_listener_that_fails_is_not_shown_the_same_again() -> None:
    queue, audience = EventQueue(), Audience()
    queue.listen(lambda events, sender, number: 1 / 0)  # type: ignore[arg-type, return-value]
    queue.events.append(event("a"))
    try:
        queue.end_frame(CLIENT, is_heartbeat=False)
    except ZeroDivisionError:
        queue.listen(audience)
    queue.events.append(event("b"))
    queue.end_frame(CLIENT, is_heartbeat=False)
    assert audience.shown == [(["b"], CLIENT, 2)]
