"""Outcomes of publishes: whom a return means, what a closed channel does, and when patience ends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
import trio
import trio.testing

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.methods import BasicAck, BasicNack, BasicPublish, ChannelClose
from amqproxy.amqp091.properties import Properties
from amqproxy.amqp091.wire import Table
from amqproxy.moving.unsettled_messages import MAX_BYTES
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.confirming_publisher import CONFIRM_TIMEOUT, PIECE, ConfirmingPublisher, _pieces
from amqproxy.workbench.publish_window import AMBIGUOUS, REFUSED, Publication, PublishWindow
from tests.workbench.scripted_target import Reply, Script, ScriptedTarget, frames_of, returned

RETURNED = "the target returned it: 312 NO_ROUTE"


def message(body: bytes = b"same", key: str = "k", **headers: Any) -> Publication:
    return Publication("x", key, Properties(headers=Table(headers) if headers else None, message_id="m"), body)


def published(publications: Sequence[Publication], script: Script) -> tuple[list[Any], ConfirmingPublisher]:
    """Publish one batch; the outcomes of one that fails are those that its failure has."""
    publisher = ConfirmingPublisher(ScriptedTarget(script))

    async def main() -> list[Any]:
        try:
            return list(await publisher.publish(publications))
        except BatchFailure as error:
            return list(error.outcomes)

    return trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0)), publisher


def at_the_end(count: int, *replies: Reply) -> Script:
    """Reply to the last of so many publishes."""
    return lambda number, command: replies if number == count else ()


def changed(publication: Publication, **changes: Any) -> Command:
    """Return the return of a publish that something has changed."""
    each = msgspec.structs.replace(publication, **changes)
    return returned(Command(1, BasicPublish(0, each.exchange, each.routing_key), each.properties, each.body))


def test_a_return_means_the_message_with_the_same_headers() -> None:
    first, second = message(k="a", n=1), message(k="b", n=1)
    reordered = msgspec.structs.replace(second.properties, headers=Table({"n": 1, "k": "b"}))
    replies = changed(second, properties=reordered), BasicAck(2, multiple=True)
    outcomes, publisher = published([first, second], at_the_end(2, *replies))
    assert outcomes == ["", RETURNED]
    assert publisher.unconfirmed == 0


def test_a_return_means_no_message_that_is_confirmed() -> None:
    replies = BasicAck(2), changed(message()), BasicAck(3, multiple=True)
    outcomes, _ = published([message(b"other"), message(), message()], at_the_end(3, *replies))
    assert outcomes == ["", "", RETURNED]


def test_a_return_knows_a_message_to_which_the_broker_added_something() -> None:
    first, second = message(k="a"), message(k="b")
    headers = Table({"k": "b", "timestamp_in_ms": 5})
    stamped = msgspec.structs.replace(second.properties, headers=headers, timestamp=5)
    replies = changed(second, properties=stamped), BasicAck(2, multiple=True)
    assert published([first, second], at_the_end(2, *replies))[0] == ["", RETURNED]


def test_messages_that_a_return_cannot_tell_apart_are_not_acknowledged() -> None:
    """BCC is removed before a message is routed. Behind it, they are published one by one."""
    first, second, third = message(BCC=["a"]), message(BCC=["b"]), message(b"other")
    plain = msgspec.structs.replace(first.properties, headers=None)
    replies = changed(first, properties=plain), BasicAck(3, multiple=True)
    outcomes, publisher = published([first, second, third], at_the_end(3, *replies))
    assert outcomes == [AMBIGUOUS, AMBIGUOUS, ""]
    assert publisher.unconfirmed == 2

    publisher.link = ScriptedTarget(lambda number, command: (returned(command), BasicAck(3 + number)))
    assert trio.run(publisher.publish, [first, second]) == [RETURNED, RETURNED]


def test_a_return_that_means_none_of_them_leaves_what_may_be_meant() -> None:
    """A proxy between may change routing key or body."""
    batch = [message(b"%d" % number) for number in range(4)]
    replies = BasicAck(1), changed(batch[1]), BasicAck(3), changed(batch[3], body=b"changed"), BasicAck(4, True)
    outcomes, publisher = published(batch, at_the_end(4, *replies))
    assert outcomes == ["", RETURNED, None, None]
    assert publisher.unconfirmed == 2


def test_the_only_message_that_is_waiting_is_meant() -> None:
    replies = BasicAck(1), changed(message(), body=b"changed"), BasicAck(2)
    assert published([message(), message()], at_the_end(2, *replies))[0] == ["", RETURNED]


def test_a_message_that_closes_the_channel_is_left_and_the_others_are_done() -> None:
    batch = [message(b"%d" % number) for number in range(6)]

    def script(number: int, command: Command) -> Sequence[Reply]:
        if command.body in (b"3", b"5"):
            return [ChannelClose(406, "PRECONDITION_FAILED")]
        if number == 1 and command.body == b"0":
            return [BasicAck(1)]
        return [BasicAck(number)] if command.body != b"2" or number == 1 else []

    outcomes, publisher = published(batch, script)
    refused = "the target refuses: 406 PRECONDITION_FAILED"
    assert outcomes == ["", "", "", refused, "", refused]
    assert isinstance(publisher.link, ScriptedTarget)
    assert publisher.link.channels == [[b"0", b"1", b"2", b"3"], [b"2", b"3"], [b"4", b"5"], []]
    assert (publisher.repeated, publisher.unconfirmed) == (1, 0)


def test_outcomes_of_a_lost_connection_are_kept() -> None:
    replies = BasicAck(2), BasicNack(3)
    outcomes, publisher = published([message(b"%d" % n) for n in range(4)], at_the_end(4, *replies))
    assert outcomes == [None, "", REFUSED, None]
    assert publisher.unconfirmed == 2


def test_heartbeats_do_not_renew_the_patience(autojump_clock: trio.testing.MockClock) -> None:
    publisher = ConfirmingPublisher(ScriptedTarget(at_the_end(2, BasicAck(1))))

    async def main() -> None:
        with pytest.raises(BatchFailure, match="confirmed nothing") as caught:
            await publisher.publish([message(), message()])
        assert caught.value.outcomes == ["", None]
        assert trio.current_time() < 2 * CONFIRM_TIMEOUT

    trio.run(main, clock=autojump_clock)


def test_confirmed_messages_of_a_cancelled_batch_are_uncertain() -> None:
    publisher = ConfirmingPublisher(ScriptedTarget(at_the_end(3, BasicAck(1), BasicNack(2))))

    async def main() -> None:
        with trio.move_on_after(1):
            await publisher.publish([message()] * 3)

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
    assert publisher.unconfirmed == 2


def test_batches_are_cut_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    big, windows = message(bytes(MAX_BYTES // 2)), []
    send = ConfirmingPublisher._send

    async def noted(self: ConfirmingPublisher, data: bytes, window: PublishWindow) -> ChannelClose | None:
        windows.append(len(window))
        return await send(self, data, window)

    monkeypatch.setattr(ConfirmingPublisher, "_send", noted)
    monkeypatch.setattr(ScriptedTarget, "frame_max", 0)
    outcomes, _ = published([big, message(), message(), big, big], lambda number, command: [BasicAck(number)])
    assert (outcomes, windows) == ([""] * 5, [3, 1, 1])


def test_pieces_are_whole_frames() -> None:
    data = Command(1, BasicAck(1)).encode(0) * 200_000
    pieces = list(_pieces(data))
    assert b"".join(pieces) == data
    assert len(pieces) == len(data) // PIECE + 1
    assert all(frames_of(piece[-len(data) // 200_000 :]) for piece in pieces)
    assert list(_pieces(b"")) == []
