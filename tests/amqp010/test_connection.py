"""A connection of 0-10, from its first byte to its last."""

import pytest

from amqproxy.amqp010.assembly import Assembly
from amqproxy.amqp010.connection import CLIENT, SERVER, Connection, ConnectionState
from amqproxy.amqp010.controls import ConnectionTune, ConnectionTuneOk, SessionAttach, SessionTimeout
from amqproxy.amqp010.errors import FramingError, ProtocolError
from tests.amqp010.transcript import by_byte, play, play_in_bursts

START = """
>> protocol-header
<< protocol-header
<< connection.start mechanisms=PLAIN,EXTERNAL
>> connection.start-ok mechanism=PLAIN response=secret
<< connection.tune channel_max=4 max_frame_size=8192 heartbeat_min=0 heartbeat_max=60
"""
OPEN = (
    START
    + """
>> connection.tune-ok channel_max=3 max_frame_size=8192 heartbeat=10
>> connection.open virtual_host=here
<< connection.open-ok
"""
)

TRANSCRIPTS = {
    "a handshake": OPEN,
    "a server that would have spoken another version": """
        >> protocol-header
        << other-protocol-header
        """,
    "another version from the client": """
        >> other-protocol-header
        !! 501 connection 0.0 4.3
        """,
    "a header from the server first": """
        << protocol-header
        !! 501 connection 0.0 4.3
        """,
    "a frame before the server's header": """
        >> protocol-header
        >> connection.start-ok
        !! 501 connection 0.0 4.3
        """,
    "a second header": """
        >> protocol-header
        << protocol-header
        >> protocol-header
        !! 501 connection 0.0 4.3
        """,
    "challenges": """
        >> protocol-header
        << protocol-header
        << connection.start mechanisms=SCRAM
        >> connection.start-ok mechanism=SCRAM
        << connection.secure challenge=one
        >> connection.secure-ok response=1
        << connection.secure challenge=two
        >> connection.secure-ok response=2
        << connection.tune
        """,
    "a mechanism that was not offered": """
        >> protocol-header
        << protocol-header
        << connection.start mechanisms=PLAIN,EXTERNAL
        >> connection.start-ok mechanism=CRAM-MD5
        !! 501 connection 1.2 9.1 connection.start-ok, validity
        """,
    "start-ok twice": """
        >> protocol-header
        << protocol-header
        << connection.start
        >> connection.start-ok
        >> connection.start-ok
        !! 501 connection 1.2 9.1 connection.start-ok
        """,
    "start from the client": """
        >> protocol-header
        << protocol-header
        >> connection.start
        !! 501 connection 1.1 9.1 connection.start
        """,
    "a session before open": START
    + """
        >> session.attach name_=s
        !! 501 connection 2.1 9.1 connection
        """,
    "a command before open": START
    + """
        >> queue.delete queue=q
        !! 501 connection 0.0 9.1 connection
        """,
    "another channel before open": START
    + """
        >> 1 connection.tune-ok
        !! 501 connection 0.0 4.4.2
        """,
    "open before tune-ok": START
    + """
        >> connection.open
        !! 501 connection 1.7 9.1 connection.open
        """,
    "a refused login": """
        >> protocol-header
        << protocol-header
        << connection.start
        >> connection.start-ok
        << connection.close reply_code=320
        >> connection.close-ok
        """,
    "an unknown virtual host": START
    + """
        >> connection.tune-ok
        >> connection.open virtual_host=nowhere
        << connection.close reply_code=402
        >> connection.close-ok
        """,
    "a redirect": START
    + """
        >> connection.tune-ok
        >> connection.open virtual_host=here
        << connection.redirect host=amqp:tcp:elsewhere
        >> connection.close
        << connection.close-ok
        """,
    "a redirect of a client that insists": START
    + """
        >> connection.tune-ok
        >> connection.open virtual_host=here insist=true
        << connection.redirect host=amqp:tcp:elsewhere
        !! 501 connection 1.9 9.1 connection.open, behavior
        """,
    "a session after a redirect": START
    + """
        >> connection.tune-ok
        >> connection.open virtual_host=here
        << connection.redirect host=amqp:tcp:elsewhere
        >> session.attach name_=s
        !! 501 connection 2.1 9.1 connection
        """,
    "a heartbeat-max below the least": """
        >> protocol-header
        << protocol-header
        << connection.start
        >> connection.start-ok
        << connection.tune heartbeat_min=10 heartbeat_max=9
        !! 501 connection 1.5 9.1 connection.tune, permitted-range
        """,
    "a heartbeat-max alone": """
        >> protocol-header
        << protocol-header
        << connection.start
        >> connection.start-ok
        << connection.tune heartbeat_max=9
        !! 501 connection 1.5 9.1 connection.tune, no-heartbeat-min
        """,
    "frames that are too small": """
        >> protocol-header
        << protocol-header
        << connection.start
        >> connection.start-ok
        << connection.tune max_frame_size=4095
        !! 501 connection 1.5 9.1 connection.tune, minimum
        """,
    "heartbeats at any time": OPEN
    + """
        >> connection.heartbeat
        << connection.heartbeat
        """,
    "a channel beyond those agreed": OPEN
    + """
        >> 2 session.attach name_=s
        >> 3 session.attach name_=t
        !! 501 connection 0.0 9.1 connection.tune-ok, available-channels
        """,
    "open twice": OPEN
    + """
        >> connection.open
        !! 501 connection 1.7 9.1 connection.open
        """,
    "the client closes": OPEN
    + """
        >> 1 session.attach name_=s
        >> connection.close reply_code=200
        << (1 session.attached name_=s)
        << (1 session.command-point command_id=0 command_offset=0)
        << (1 execution.sync)
        << connection.close-ok
        << (connection.close-ok)
        """,
    "a close says which channel it is about": OPEN
    + """
        >> 1 session.attach name_=s
        << 1 connection.close reply_code=501
        >> (1 session.detach name_=s)
        >> 1 connection.close-ok
        """,
    "both close at once": OPEN
    + """
        >> connection.close
        << connection.close
        << connection.close-ok
        >> connection.close-ok
        """,
    "close-ok to no close": OPEN
    + """
        >> connection.close-ok
        !! 501 connection 1.12 9.1 connection.close-ok
        """,
    "a handshake's control on another channel": OPEN
    + """
        << 1 connection.open-ok
        !! 501 connection 1.8 9.1 connection.open-ok
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


def test_what_was_agreed_is_known() -> None:
    connection = play(OPEN)
    assert connection.state is ConnectionState.OPEN
    assert (connection.channel_max, connection.frame_max, connection.heartbeat) == (3, 8192, 10)
    assert connection.virtual_host == "here"
    assert connection.client is not None
    assert connection.client.mechanism == "PLAIN"
    assert {reader.frame_max for reader in connection.readers.values()} == {8192}


def test_a_redirect_is_known() -> None:
    connection = play(TRANSCRIPTS["a redirect"])
    assert (connection.redirect, connection.state) == ("amqp:tcp:elsewhere", ConnectionState.CLOSED)


Limits = tuple[int | None, ...]


@pytest.mark.parametrize(
    ("offered", "chosen", "agreed"),
    [
        ((None, None, None, None), (None, None, None), (0, 0, 0)),
        ((None, None, None, None), (5, 4096, None), (5, 4096, 0)),
        ((65534, 65535, 0, 120), (None, None, 1), (65534, 65535, 1)),  # qpid-python sends no more than that
        ((256, 65535, 0, 65535), (256, 65535, 120), (256, 65535, 120)),
        ((256, 65535, 0, 120), (1, 4096, 0), (1, 4096, 0)),
        ((256, 65535, 5, None), (1, 4096, 5000), (1, 4096, 5000)),
        ((256, 65535, 0, 120), (257, 4096, 0), "upper-limit"),
        ((256, 5000, 0, 120), (1, 5001, 0), "upper-limit"),
        ((256, 65535, 0, 120), (1, 4095, 0), "minimum"),
        ((256, 65535, 0, 120), (1, 4096, 121), "permitted-range"),
        ((256, 65535, 10, 120), (1, 4096, 9), "permitted-range"),
        ((256, 65535, None, None), (1, 4096, 9), "no-heartbeat-min"),
    ],
)
def test_limits(offered: Limits, chosen: Limits, agreed: tuple[int, ...] | str) -> None:
    connection = play(">> protocol-header\n<< protocol-header\n<< connection.start\n>> connection.start-ok")
    connection.send(SERVER, Assembly(0, ConnectionTune(*offered)))
    answer = Assembly(0, ConnectionTuneOk(*chosen))
    if isinstance(agreed, str):
        with pytest.raises(FramingError) as caught:
            connection.send(CLIENT, answer)
        assert caught.value.section == f"9.1 connection.tune-ok, {agreed}"
    else:
        connection.send(CLIENT, answer)
        assert (connection.channel_max, connection.frame_max, connection.heartbeat) == agreed


def test_what_is_sent_is_noted_and_encoded() -> None:
    connection = play(OPEN)
    attach = Assembly(1, SessionAttach(b"s"))
    assert connection.send(CLIENT, attach) == attach.encode()
    session = connection.channels[1].session
    assert session is not None
    assert session.name == b"s"
    with pytest.raises(ProtocolError) as caught:
        connection.send(SERVER, Assembly(1, SessionTimeout(5)))
    assert (caught.value.channel, caught.value.class_code, caught.value.method_code) == (1, 2, 6)


def test_what_breaks_rules_of_one_session_can_be_noted_instead() -> None:
    deviations: list[ProtocolError] = []
    connection = play(OPEN, Connection(deviations=deviations))
    play(">> 1 session.flush completed=true\n>> 1 session.attach name_=s\n<< 1 session.attached name_=s", connection)
    assert [error.section for error in deviations] == ["9.2 session, attachment"]
    assert deviations[0].channel == 1
    with pytest.raises(FramingError):
        play(">> connection.open", connection)


def test_sessions_are_retained_when_the_transport_is_gone() -> None:
    connection = play(
        OPEN
        + """
        >> 1 session.attach name_=s
        >> 1 session.request-timeout timeout=60
        << 1 session.attached name_=s
        << 1 session.timeout timeout=60
        >> 2 session.attach name_=t
        << 2 session.attached name_=t
        """
    )
    assert connection.session_count == 2
    connection.release()
    assert list(connection.retained) == [b"s"]
    assert connection.session_count == 0


# --- heartbeats


def test_heartbeats() -> None:
    connection = play(OPEN)  # every ten seconds
    connection.note_received(CLIENT, 100.0)
    assert [connection.is_heartbeat_due(CLIENT, now) for now in (100.0, 104.9, 105.0)] == [False, False, True]
    assert [connection.is_silent(CLIENT, now) for now in (105.0, 120.0, 120.1)] == [False, False, True]
    connection.note_received(CLIENT, 120.0)
    assert not connection.is_silent(CLIENT, 139.0)


def test_no_heartbeats() -> None:
    connection = play(START + ">> connection.tune-ok channel_max=3")
    connection.note_received(CLIENT, 0.0)
    assert not connection.is_silent(CLIENT, 1e9)
    assert not connection.is_heartbeat_due(CLIENT, 1e9)
