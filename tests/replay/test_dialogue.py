"""Steps are all that a capture has, in its order."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.amqp091.transitions import Peer
from amqproxy.capture.decode import read_decoded
from amqproxy.replay.dialogue import dialogues, steps_of
from amqproxy.replay.steps import BytesLost, BytesSent, CommandSent, ConnectionEnded, ProtocolHeaderSent, Step

CAPTURES = Path(__file__).parent.parent.parent / "captures"


def steps(name: str) -> list[Step]:
    return list(steps_of(read_decoded(CAPTURES / name)))


def methods(found: list[Step], stream: int = 0) -> list[str]:
    return [each.command.method.name for each in found if isinstance(each, CommandSent) and each.stream == stream]


def test_a_connection_has_its_greeting_its_commands_and_its_end() -> None:
    found = steps("confirms.pcapng")
    assert isinstance(found[0], ProtocolHeaderSent)
    assert isinstance(found[-1], ConnectionEnded)
    assert found[-1].by is Peer.CLIENT
    names = methods(found)
    assert names[:3] == ["connection.start", "connection.start-ok", "connection.tune"]
    assert names[-2:] == ["connection.close", "connection.close-ok"]
    assert [each.index for each in found] == list(range(len(found)))
    published = [each for each in found if isinstance(each, CommandSent) and each.command.method.carries_content]
    assert all(each.command.is_complete for each in published)


def test_packets_that_were_captured_late_give_the_same_commands() -> None:
    def sent(name: str, sender: Peer) -> list[str]:
        return [
            each.command.method.name for each in steps(name) if isinstance(each, CommandSent) and each.sender is sender
        ]

    for sender in Peer:
        assert sent("consume-large.shuffled.pcapng", sender) == sent("consume-large.pcapng", sender)


def test_what_is_no_frame_is_there_with_its_bytes() -> None:
    faults = [each for each in steps("kombu-table.broken.pcapng") if isinstance(each, BytesSent)]
    assert faults
    assert all(each.data for each in faults)
    assert any(each.code == 501 for each in faults)


def test_what_is_lost_is_a_step() -> None:
    assert any(isinstance(each, BytesLost) for each in steps("consume-large.dropped.pcapng"))


def test_dialogues_have_the_steps_of_each_connection_and_know_its_beginning() -> None:
    found = dialogues(read_decoded(CAPTURES / "confirms.ports-reused.pcapng"))
    assert len(found) == 2
    assert all(each.is_from_start and each.steps and each.events for each in found)
    with pytest.raises(OverflowError):
        dialogues(read_decoded(CAPTURES / "confirms.ports-reused.pcapng"), limit=5)
    joined = dialogues(read_decoded(CAPTURES / "consume-large.joined-midway.pcapng"))
    assert not joined[0].is_from_start


def test_a_reset_is_the_last_step_of_the_peer_that_sent_it() -> None:
    last = steps("server-reset.pcapng")[-1]
    assert isinstance(last, ConnectionEnded)
    assert (last.by, last.is_reset, last.reason) == (Peer.SERVER, True, "server reset the connection")
