"""One live client of 0-10 of a mock, without sockets and clock."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.amqp010 import commands, controls
from amqproxy.amqp010.assembly import Assembly, AssemblyReader
from amqproxy.amqp010.domains import CreditUnit
from amqproxy.amqp010.frame import encode_method
from amqproxy.amqp010.frame_reader import FrameReader
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.results import QueueQueryResult
from amqproxy.amqp010.wire import Map
from amqproxy.replay.dialogue import dialogues
from amqproxy.replay.mocking.amqp010.mock_connection import Amqp010MockConnection
from amqproxy.replay.mocking.amqp010.server_script import read_script
from amqproxy.replay.mocking.cast import Cast
from amqproxy.replay.mocking.mock_connection import CLOSING_TIME, HANDSHAKE_TIME, MockSettings
from amqproxy.replay.mocking.server_script import ServerScript
from amqproxy.replay.names import SharedNames
from tests.example_count import example_count
from tests.replay.amqp010.recordings import Amqp010Recording, completed, transfer

QUEUE = "jobs-8f14e45f-ceea-467f-a8b6-0d1b7c1c6e4a"
OTHER = "jobs-0cc175b9-c0f1-46b6-831c-399e26977266"


def recording() -> Amqp010Recording:
    """A queue with a generated name, two messages to it, and from it; each thing a millisecond after the one before."""
    found = Amqp010Recording()
    found.open(0)
    found.attach(0, 1)
    found.client(0, 1, commands.QueueDeclare(QUEUE, sync=True))
    found.server(0, 1, completed((0, 0)))
    found.client(0, 1, commands.QueueQuery(QUEUE))
    found.server(0, 1, commands.ExecutionResult(1, QueueQueryResult(QUEUE, message_count=0)), completed((0, 1)))
    found.client(0, 1, commands.MessageSubscribe(QUEUE, "d"), commands.MessageFlow("d", CreditUnit.MESSAGE, 9))
    found.client(0, 1, transfer("", b"one", key=QUEUE), transfer("", b"two", key=QUEUE))
    found.server(0, 1, completed((0, 5)), transfer("d", b"one", key=QUEUE), transfer("d", b"two", key=QUEUE))
    found.client(0, 1, commands.QueueDelete("none"))
    found.server(0, 1, commands.ExecutionException(404, 6, description="not-found"), controls.SessionDetach(b"s0"))
    found.close(0)
    return found


def scripts() -> list[ServerScript[Assembly]]:
    return [read_script(each) for each in dialogues(recording().decoded)]


class Client:
    """What a test sends to a mock, and what comes back."""

    def __init__(self, **options: Any) -> None:
        self.now = 1000.0
        self.bodies: list[bytes] = []
        self.methods: list[Method] = []
        self.mock = Amqp010MockConnection(Cast(scripts()), SharedNames(), MockSettings(**options), self.now)
        self._reader = FrameReader(frame_max=0)
        self._assemblies: dict[int, AssemblyReader] = {}
        self.mock.feed(HEADER, self.now)
        assert self.mock.take_output()[: len(HEADER)] == HEADER

    def open(self, heartbeat: int = 0, user: bytes = b"guest", password: bytes = b"guest") -> list[str]:
        found = self.send(0, controls.ConnectionStartOk(Map(), "PLAIN", b"\0%b\0%b" % (user, password), "en_US"))
        found += self.send(0, controls.ConnectionTuneOk(100, 65_535, heartbeat))
        return found + self.send(0, controls.ConnectionOpen("/"))

    def attach(self, channel: int = 1) -> list[str]:
        self.open()
        return self.send(channel, controls.SessionAttach(b"mine"), controls.SessionCommandPoint(0, 0))

    def send(self, channel: int, *said: Method | Assembly) -> list[str]:
        data = b""
        for each in said:
            whole = each if isinstance(each, Assembly) else Assembly(channel, each)
            data += Assembly(channel, whole.method, whole.header, whole.body if whole.has_body else None).encode()
        self.mock.feed(data, self.now)
        return self.received()

    def wait(self, seconds: float) -> list[str]:
        self.now += seconds
        self.mock.tick(self.now)
        return self.received()

    def received(self) -> list[str]:
        """The names of what has come; the rest is in `methods` and `bodies`."""
        found = []
        for frame in self._reader.feed(self.mock.take_output()):
            assembly = self._assemblies.setdefault(frame.channel, AssemblyReader()).add(frame)
            if assembly is not None:
                found.append(assembly.method.name)
                self.methods.append(assembly.method)
                if assembly.method.carries_content:
                    self.bodies.append(assembly.body)
        return found

    def last(self, kind: type[Any]) -> Any:
        return [each for each in self.methods if isinstance(each, kind)][-1]


def test_a_client_gets_what_the_recorded_one_got_under_its_own_names_and_ids() -> None:
    client = Client(speed=0)
    assert client.attach() == ["session.attached"]
    assert client.send(1, commands.ExecutionSync()) == ["session.completed"]  # which the recorded one has not sent
    assert client.send(1, commands.QueueDeclare(OTHER, sync=True)) == ["session.completed"]
    came = client.send(1, commands.QueueQuery(OTHER))
    assert came == ["session.command-point", "execution.result", "session.completed"]
    result = client.last(commands.ExecutionResult)
    assert (result.command_id, result.value.queue) == (2, OTHER)
    client.send(1, commands.MessageSubscribe(OTHER, "mine"), commands.MessageFlow("mine", CreditUnit.MESSAGE, 1))
    assert client.send(1, commands.MessageFlow("mine", CreditUnit.BYTE, 0xFFFF_FFFF)) == ["session.completed"]
    came = client.send(1, transfer("", b"uno", key=OTHER), transfer("", b"two", key=OTHER))
    assert came.count("message.transfer") == 1  # as much as there is credit for
    assert client.send(1, completed((1, 1))) == ["message.transfer"]
    assert client.bodies == [b"uno", b"two"]
    assert client.last(commands.MessageTransfer).destination == "mine"
    assert client.send(1, commands.QueueDelete("none"))[-2:] == ["session.completed", "session.detach"]
    exception = client.last(commands.ExecutionException)
    assert (exception.error_code, exception.command_id) == (404, 8)
    assert client.send(0, controls.ConnectionClose(200)) == ["connection.close-ok"]
    client.mock.finish()
    assert [each.what for each in client.mock.notes.differences] == [f"message.transfer routing_key={QUEUE}"]


def test_answers_come_at_the_recorded_pace() -> None:
    client = Client(speed=0.001)  # what took a millisecond takes a second
    client.attach()
    assert client.send(1, commands.QueueDeclare(QUEUE, sync=True)) == []
    assert client.wait(0.9) == []
    assert client.wait(0.2) == ["session.completed"]


def test_nothing_comes_after_close_ok() -> None:
    client = Client(speed=0.001)
    client.attach()
    client.send(1, commands.QueueDeclare(QUEUE, sync=True))
    assert client.send(0, controls.ConnectionClose(200)) == ["connection.close-ok"]
    assert client.wait(2) == []


def test_what_has_no_answer_ends_the_session_or_the_connection() -> None:
    client = Client(speed=0)
    client.attach()
    came = client.send(1, commands.QueueDeclare(f"{QUEUE}.dead"))
    assert came == ["session.command-point", "execution.exception", "session.completed", "session.detach"]
    exception = client.last(commands.ExecutionException)
    assert exception.error_code == 540
    why = f"the recording has no queue.declare queue={QUEUE}.dead here"
    assert exception.description == f"{why}; nearest: queue.declare queue={QUEUE}"
    strict = Client(speed=0, is_strict=True)
    strict.attach()
    assert strict.send(1, commands.QueuePurge("johs")) == ["connection.close"]
    strict.wait(CLOSING_TIME)
    assert strict.mock.is_cut


@pytest.mark.parametrize("name", ["ü" * 120, "\udcff" * 200, "q" * 255])
def test_a_text_that_is_too_long_is_cut(name: str) -> None:
    """A reply text has at most 255 bytes, not characters."""
    client = Client(speed=0, is_strict=True)
    client.attach()
    assert client.send(1, commands.QueuePurge(name)) == ["connection.close"]
    assert client.last(controls.ConnectionClose).reply_text.endswith("...")


def test_controls_of_a_session_are_answered() -> None:
    client = Client(speed=0)
    client.attach()
    assert client.send(1, controls.SessionRequestTimeout(5)) == ["session.timeout"]
    flush = controls.SessionFlush(expected=True, confirmed=True, completed=True)
    assert client.send(1, flush) == ["session.expected", "session.confirmed", "session.completed"]
    assert client.send(1, controls.SessionCompleted(None, timely_reply=True)) == ["session.known-completed"]
    assert client.send(1, controls.SessionDetach(b"mine")) == ["session.detached"]
    assert client.send(1, commands.QueueDeclare(QUEUE)) == []


def test_who_may_log_in_and_what_is_left_to_be_played() -> None:
    assert Client(user=("me", "mine")).open(user=b"me", password=b"yours") == ["connection.close"]
    client = Client(user=("me", "mine"))
    assert client.open(user=b"me", password=b"mine")[-1] == "connection.open-ok"
    client = Client()
    client.send(0, controls.ConnectionStartOk(Map(), "PLAIN", b"\0guest\0x", "en_US"))
    client.send(0, controls.ConnectionTuneOk(100, 65_535, 0))
    assert client.send(0, controls.ConnectionOpen("elsewhere")) == ["connection.close"]
    assert "no connection of user 'guest' in virtual host 'elsewhere'" in client.mock.notes.unanswered[0]


def test_time_is_limited_and_heartbeats_are_live() -> None:
    silent = Amqp010MockConnection(Cast(scripts()), SharedNames(), MockSettings(), 0.0)
    assert silent.wake_at == HANDSHAKE_TIME
    silent.tick(HANDSHAKE_TIME)
    assert silent.is_cut
    client = Client()
    client.open(heartbeat=4)
    assert client.wait(2) == ["connection.heartbeat"]
    assert client.wait(1) == []
    client.wait(6)
    assert client.mock.is_cut


SENT = [
    Assembly(1, each.method, each.header, each.body if each.has_body else None).encode()
    for each in (
        transfer("", b"one", key=QUEUE),
        *(
            Assembly(1, method)
            for method in (
                controls.SessionAttach(b"again"),
                controls.SessionCommandPoint(7, 0),
                controls.SessionDetach(b"mine"),
                completed((0, 99)),
                commands.QueueDeclare(QUEUE),
                commands.MessageSubscribe(QUEUE, "d"),
                commands.MessageFlow("d", CreditUnit.MESSAGE, 1),
                commands.MessageFlow("d", CreditUnit.BYTE, 0xFFFF_FFFF),
                commands.MessageStop("d"),
                commands.MessageCancel("d"),
                commands.QueueDelete("none"),
            )
        ),
    )
]


@settings(max_examples=example_count(100), deadline=None)
@given(
    st.lists(st.sampled_from(SENT) | st.binary(max_size=30), max_size=40), st.lists(st.integers(1, 5000), max_size=20)
)
def test_whatever_a_client_sends_it_costs_only_itself(parts: list[bytes], cuts: list[int]) -> None:
    client = Client(speed=0)
    client.attach()
    data = b"".join(parts)
    for cut in (*cuts, len(data)):
        client.mock.feed(data[:cut] or encode_method(0, controls.ConnectionHeartbeat()), client.now)
        data = data[cut:]
        client.wait(0.1)
    client.mock.finish()
    assert client.mock.is_over


def test_of_messages_that_are_never_whole_no_more_is_kept_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("amqproxy.replay.mocking.mock_connection.MAX_HELD", 10_000)
    client = Client()
    client.attach()
    message = transfer("", bytes(100_000), key=QUEUE)
    data = Assembly(1, message.method, message.header, message.body).encode(frame_max=1000)
    client.mock.feed(data[:-1000], client.now)
    assert "connection.close" in client.received()
    assert client.mock._held_size <= 11_000
