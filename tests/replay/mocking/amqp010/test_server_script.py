"""What a recorded server of 0-10 has answered to what: played to the recorded client, it is the same again."""

from __future__ import annotations

import pytest

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.sequence import SequenceSet
from amqproxy.capture.decode import read_decoded
from amqproxy.replay.dialogue import dialogues, steps_of
from amqproxy.replay.mocking.dialects import scripts_of
from amqproxy.replay.mocking.server_script import AnswerKind
from tests.amqp010.recorded import SESSIONS, capture
from tests.replay.amqp010.recordings import Amqp010Recording, completed, transfer
from tests.replay.mocking.local_mock import local_mock
from tests.replay.playing import CAPTURES, played, texts


@pytest.mark.parametrize("name", SESSIONS)
def test_what_qpid_has_said_the_mock_says_again(name: str) -> None:
    """Beside a capture of 0-9-1, which another client plays against the same mock."""
    both = [capture(name), CAPTURES / "transactions.pcapng"]
    with local_mock(*both) as mock:
        url = f"amqp://guest:guest@127.0.0.1:{mock.port}"
        result = played(steps_of(read_decoded(both)), url, timeout=5.0)
    assert texts(result) == []
    assert [line for report in mock.reports if not report.is_same for line in report.lines()] == []
    assert len(mock.reports) == result.connections


def test_answers_and_what_messages_wait_for() -> None:
    recording = Amqp010Recording()
    recording.open(0, vhost="test")
    recording.attach(0, 0)
    recording.client(0, 0, commands.TxSelect(), transfer("", b"1", key="q"), commands.MessageSubscribe("q", "d"))
    recording.client(0, 0, commands.TxCommit())
    recording.server(0, 0, completed((0, 2)), transfer("d", b"1", key="q"), completed((0, 3)))
    recording.client(0, 0, transfer("", b"2", key="nowhere"))
    recording.server(0, 0, commands.MessageReject(SequenceSet([(4, 4)]), 1), commands.ExecutionException(404, 4))
    recording.server(0, 0, controls.SessionDetach(b"s0"))
    (script,) = scripts_of(dialogues(recording.decoded))
    assert script.protocol == "0-10"
    assert (script.client_name, script.user, script.virtual_host) == ("x", "guest", "test")
    (session,) = script.channels
    select, sent, subscribe, commit, refused = session.commands
    assert {each.kind for scripted in (select, sent, subscribe, commit) for each in scripted.answers} == {
        AnswerKind.CONFIRM
    }
    (delivery,) = subscribe.deliveries
    assert (delivery.source, delivery.cause) == (sent, commit)
    assert [each.kind for each in refused.answers] == [AnswerKind.SETTLEMENT, AnswerKind.CHANNEL_CLOSE]


def test_a_login_that_was_refused() -> None:
    recording = Amqp010Recording()
    recording.open(0)
    recording.decoded = recording.decoded[:-2]
    recording.server(0, 0, controls.ConnectionClose(320, "no"))
    (script,) = scripts_of(dialogues(recording.decoded))
    assert script.refused == controls.ConnectionClose(320, "no")
    assert script.virtual_host is None
