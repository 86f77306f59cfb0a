"""Attaching sessions to a channel, detaching them, and numbering their commands."""

import pytest

from amqproxy.amqp010 import channel as module
from amqproxy.amqp010.errors import ProtocolError, ResourceLimitExceeded, Scope
from amqproxy.amqp010.transitions import SessionState
from amqproxy.peer import CLIENT, SERVER
from tests.amqp010.transcript import by_byte, play, play_in_bursts

OPEN = """
>> protocol-header
<< protocol-header
<< connection.start
>> connection.start-ok
<< connection.tune
>> connection.tune-ok
>> connection.open
<< connection.open-ok
"""
ATTACHED = (
    OPEN
    + """
>> session.attach name_=s
<< session.attached name_=s
>> session.command-point command_id=0 command_offset=0
<< session.command-point command_id=0 command_offset=0
"""
)
LARGE = "x" * 9000

TRANSCRIPTS = {
    "a session, as in section 3.6.1": OPEN
    + """
        >> 1 session.attach name_=s
        << 1 session.attached name_=s
        >> 1 session.flush expected=true confirmed=true completed=true
        << 1 session.flush expected=true confirmed=true completed=true
        << 1 session.expected commands=''
        << 1 session.confirmed commands=''
        << 1 session.completed commands='' timely_reply=true
        >> 1 session.expected commands=''
        >> 1 session.confirmed
        >> 1 session.completed
        >> 1 session.request-timeout timeout=300
        << 1 session.timeout timeout=60
        >> 1 session.command-point command_id=0 command_offset=0
        << 1 session.command-point command_id=0 command_offset=0
        >> 1 queue.delete queue=q
        """,
    "all that a client can send without waiting": OPEN
    + """
        >> session.attach name_=s
        >> session.request-timeout timeout=0
        >> session.command-point command_id=0 command_offset=0
        >> queue.delete queue=q
        << session.attached name_=s
        << session.timeout timeout=0
        << session.completed commands=0
        """,
    "a control where nothing is attached": OPEN
    + """
        >> 1 session.request-timeout timeout=0
        !! 3 attachment 2.5 9.2 session, attachment
        """,
    "a command where nothing is attached": OPEN
    + """
        >> 1 queue.delete queue=q
        !! 3 attachment 0.0 9.2 session, attachment
        """,
    "the server before it has attached": OPEN
    + """
        >> session.attach name_=s
        << session.command-point command_id=0 command_offset=0
        !! 3 attachment 2.7 9.2 session, attachment
        """,
    "attached, which none asked for": OPEN
    + """
        << session.attached name_=s
        !! 409 session 2.2 9.2 session.attached
        """,
    "attached to another name": OPEN
    + """
        >> session.attach name_=s
        << session.attached name_=t
        !! 409 session 2.2 9.2 session.attached
        """,
    "an attach is idempotent": ATTACHED
    + """
        >> session.attach name_=s
        << session.attached name_=s
        << session.attached name_=s
        >> queue.delete queue=q
        """,
    "a second session on a channel": ATTACHED
    + """
        >> session.attach name_=t
        !! 2 attachment 2.1 9.2 session.attach, one-session-per-transport
        """,
    "sessions on two channels": ATTACHED
    + """
        >> 1 session.attach name_=t
        << 1 session.attached name_=t
        >> queue.delete queue=q
        >> 1 session.command-point command_id=0 command_offset=0
        >> 1 queue.delete queue=q
        << 1 session.completed commands=0
        << session.completed commands=0
        """,
    "a session that is busy, to which the client sends already": OPEN
    + """
        >> session.attach name_=s
        >> session.command-point command_id=0 command_offset=0
        << session.detached name_=s code=1
        >> (queue.delete queue=q)
        >> session.attach name_=s force=true
        << session.attached name_=s
        """,
    "the client detaches": ATTACHED
    + """
        >> session.detach name_=s
        << session.completed commands=''
        << session.flush completed=true
        << session.detached name_=s code=0
        << session.command-point command_id=1 command_offset=0
        !! 3 attachment 2.7 9.2 session, attachment
        """,
    "the client goes on after it has detached": ATTACHED
    + """
        >> session.detach name_=s
        >> queue.delete queue=q
        !! 3 attachment 0.0 9.2 session, attachment
        """,
    "the client detaches from another session": ATTACHED
    + """
        >> session.detach name_=t
        !! 3 attachment 2.3 9.2 session.detach
        """,
    "the server detaches, as Broker-J does after an exception": ATTACHED
    + """
        >> queue.delete queue=q
        << execution.exception error_code=404 command_id=0
        << session.request-timeout timeout=0
        << session.detach name_=s
        >> (queue.delete queue=q)
        >> session.completed commands=0
        >> session.timeout timeout=0
        >> session.detached name_=s code=0
        """,
    "both detach at once": ATTACHED
    + """
        >> session.detach name_=s
        << session.detach name_=s
        << session.detached name_=s code=0
        >> session.detached name_=s code=0
        >> session.attach name_=s
        """,
    "another session follows at once": ATTACHED
    + """
        >> session.detach name_=s
        >> session.attach name_=t
        >> session.command-point command_id=7 command_offset=0
        >> queue.delete queue=q
        << session.flush completed=true
        << session.detached name_=s code=0
        << session.attached name_=t
        << session.completed commands=7
        """,
    "a detach before the answer to the attach": OPEN
    + """
        >> session.attach name_=s
        >> session.detach name_=s
        << session.attached name_=s
        << session.detached name_=s code=0
        >> session.attach name_=s
        """,
    "a detach where nothing is attached, and its answer": OPEN
    + """
        >> session.detach name_=s
        << session.detached name_=s code=3
        """,
    "the server ends it, while the client sends": ATTACHED
    + """
        << session.detached name_=s code=4
        >> (queue.delete queue=q)
        >> (session.flush completed=true)
        >> session.detached name_=s code=0
        >> session.flush completed=true
        !! 3 attachment 2.12 9.2 session, attachment
        """,
    "a detach meets the end of the session": ATTACHED
    + """
        << session.detached name_=s code=4
        >> session.detach name_=s
        << session.detached name_=s code=3
        >> session.attach name_=s
        """,
    "the server attaches": OPEN
    + """
        << session.attach name_=s
        << session.command-point command_id=0 command_offset=0
        >> session.attached name_=s
        >> session.command-point command_id=0 command_offset=0
        << execution.sync
        >> session.completed commands=0
        """,
    # --- numbering
    "a command without numbering": OPEN
    + """
        >> session.attach name_=s
        >> queue.delete queue=q
        !! 4 attachment 0.0 9.2 session.command-point, newly-attached-transports
        """,
    "numbering has to be set after each attach": ATTACHED
    + """
        >> session.detach name_=s
        << session.detached name_=s code=0
        >> session.attach name_=s
        << session.attached name_=s
        >> queue.delete queue=q
        !! 4 attachment 0.0 9.2 session.command-point, newly-attached-transports
        """,
    "ids that roll over": ATTACHED
    + """
        >> session.command-point command_id=4294967294 command_offset=0
        >> queue.delete queue=q
        >> queue.delete queue=q
        >> queue.delete queue=q
        >> queue.delete queue=q
        << session.completed commands=4294967294-1
        >> session.known-completed commands=4294967294-1
        << session.completed commands=2
        !! 542 session 2.10 3.2.3
        """,
    "the middle of a command where a new one was announced": ATTACHED
    + f"""
        >> part message.transfer body={LARGE}
        >> session.command-point command_id=0 command_offset=0
        >> rest message.transfer body={LARGE}
        !! 501 connection 0.0 9.2 session.command-point, zero-offset
        """,
    "a new command where the middle of one was announced": ATTACHED
    + """
        >> session.command-point command_id=0 command_offset=4000
        >> queue.delete queue=q
        !! 501 connection 0.0 9.2 session.command-point, nonzero-offset
        """,
    "the rest of a command that was begun elsewhere": ATTACHED
    + f"""
        >> session.command-point command_id=3 command_offset=4000
        >> rest message.transfer body={LARGE}
        >> queue.delete queue=q
        << session.completed commands=3-4
        """,
    "controls in the middle of a command": ATTACHED
    + f"""
        >> part message.transfer body={LARGE}
        >> session.flush completed=true
        << session.completed commands=''
        >> connection.heartbeat
        >> rest message.transfer body={LARGE}
        << session.completed commands=0
        """,
    "the completion of a command of which a part was sent": ATTACHED
    + f"""
        >> part message.transfer body={LARGE}
        << session.completed commands=0
        !! 542 session 2.10 3.2.3
        """,
    "a command that is given up by a gap": ATTACHED
    + f"""
        >> part message.transfer body={LARGE}
        >> session.gap commands=0
        >> queue.delete queue=q
        << session.completed commands=0-1
        """,
    "a gap over what is to come": ATTACHED
    + """
        >> session.gap commands=0-4
        >> queue.delete queue=q
        << session.completed commands=5
        << session.completed commands=6
        !! 542 session 2.10 3.2.3
        """,
    "a gap before any numbering": OPEN
    + """
        >> session.attach name_=s
        >> session.gap commands=0
        !! 409 session 2.13 9.2 session.gap
        """,
    "a session that ends in the middle of a command": ATTACHED
    + f"""
        >> part message.transfer body={LARGE}
        >> session.detach name_=s
        << session.detached name_=s code=0
        >> session.attach name_=t
        >> session.command-point command_id=0 command_offset=0
        >> queue.delete queue=q
        """,
    "commands are sent again": OPEN
    + """
        >> session.attach name_=s
        << session.attached name_=s
        >> session.request-timeout timeout=60
        << session.timeout timeout=60
        >> session.command-point command_id=0 command_offset=0
        >> tx.select
        >> queue.delete queue=q
        << session.completed commands=0
        >> session.detach name_=s
        << session.detached name_=s code=0
        >> 2 session.attach name_=s force=true
        << 2 session.attached name_=s
        << 2 session.flush expected=true
        >> 2 session.expected commands=''
        >> 2 session.flush expected=true confirmed=true completed=true
        << 2 session.expected commands=2
        << 2 session.confirmed commands=0-1
        << 2 session.completed commands=0
        >> 2 session.command-point command_id=0 command_offset=0
        >> (2 tx.select)
        >> (2 queue.delete queue=q)
        >> 2 tx.commit
        << 2 session.completed commands=0-2
        """,
}


@pytest.mark.parametrize("transcript", TRANSCRIPTS.values(), ids=TRANSCRIPTS)
class TestTranscripts:
    def test_line_by_line(self, transcript: str) -> None:
        play(transcript)

    def test_in_bursts(self, transcript: str) -> None:
        play_in_bursts(transcript)

    def test_byte_by_byte(self, transcript: str) -> None:
        play_in_bursts(transcript, by_byte)


@pytest.mark.parametrize(
    ("steps", "state"),
    [
        (">> session.attach name_=s", SessionState.ATTACHING_BY_CLIENT),
        (">> session.attach name_=s\n<< session.attached name_=s", SessionState.ATTACHED),
        (">> session.attach name_=s\n>> session.detach name_=s", SessionState.DETACHING_BY_CLIENT),
    ],
)
def test_the_state_has_a_name(steps: str, state: SessionState) -> None:
    session = play(OPEN + steps).channels[0].session
    assert session is not None
    assert session.state is state


@pytest.mark.parametrize(
    ("timeout", "is_retained"), [("timeout=0", False), ("timeout=60", True), ("", True), (None, False)]
)
def test_a_session_with_a_timeout_is_retained(timeout: str | None, is_retained: bool) -> None:
    asked = f">> session.request-timeout {timeout}\n<< session.timeout {timeout}\n" if timeout is not None else ""
    connection = play(ATTACHED + asked + ">> session.detach name_=s\n<< session.detached name_=s code=0")
    assert connection.channels[0].sessions == {CLIENT: None, SERVER: None}
    assert (b"s" in connection.retained) is is_retained


def test_a_session_that_has_failed_is_not_retained() -> None:
    connection = play(
        ATTACHED
        + """
        >> session.request-timeout timeout=60
        << session.timeout timeout=60
        >> queue.delete queue=q
        << execution.exception error_code=404
        << session.detach name_=s
        >> session.detached name_=s code=0
        """
    )
    assert not connection.retained


def test_unanswered_attaches_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ATTACHING", 2)
    with pytest.raises(ResourceLimitExceeded):
        play(OPEN + ">> session.attach name_=s\n>> session.detach name_=s\n" * 4)


def test_retained_sessions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_RETAINED", 1)
    connection = play(OPEN)
    for number in range(3):
        play(
            f"""
            >> session.attach name_=s{number}
            << session.attached name_=s{number}
            >> session.request-timeout
            << session.timeout
            >> session.detach name_=s{number}
            << session.detached name_=s{number} code=0
            """,
            connection,
        )
    assert list(connection.retained) == [b"s0"]


def test_an_error_of_attachment_ends_no_session() -> None:
    with pytest.raises(ProtocolError) as caught:
        play(OPEN + ">> 1 session.flush completed=true")
    assert (caught.value.scope, caught.value.name) == (Scope.ATTACHMENT, "not-attached")
