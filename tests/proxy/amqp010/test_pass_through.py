"""What passes without rules, and what is noted of it."""

from __future__ import annotations

from amqproxy.amqp010.commands import QueueDeclare
from amqproxy.amqp010.connection import ConnectionState
from amqproxy.amqp010.controls import ConnectionStartOk, SessionAttach, SessionDetach
from amqproxy.amqp010.errors import ProtocolError
from amqproxy.amqp010.frame import encode_segment
from amqproxy.amqp010.methods import Method
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.peer import CLIENT, SERVER, Peer
from amqproxy.proxy.amqp010.leg import Amqp010Leg
from amqproxy.proxy.amqp010.pass_through import Amqp010PassThrough
from amqproxy.rules.context import Client
from amqproxy.taps.note import NOTHING
from tests.proxy.amqp010_script import ATTACH, LOGIN, MESSAGES, Step, method


class Passed:
    def __init__(self, *, is_tapped: bool = False) -> None:
        self.legs = {peer: Amqp010Leg(peer, None) for peer in Peer}
        self.met: list[tuple[Peer, int, Method]] = []
        self.violations: list[tuple[Peer, ProtocolError]] = []
        self.passage = Amqp010PassThrough(
            self.legs,
            Client(session=3),
            self.met,
            on_violation=lambda sender, error: self.violations.append((sender, error)),
            is_tapped=is_tapped,
        )

    def play(self, *steps: Step) -> None:
        for sender, data in steps:
            rest = data
            if data.startswith(HEADER):
                for leg in self.legs.values():
                    leg.connection.receive_header(sender, HEADER)
                rest = data[8:]
            self.passage.take(sender, self.legs[sender].reader.feed(rest), 0.0)
            assert self.passage.take_output(sender.other) == rest
            assert self.passage.take_output(sender.other) == b""
            assert self.passage.take_output(sender) == b""


def test_both_legs_are_shown_what_changes_them() -> None:
    passed = Passed()
    passed.play(*LOGIN, *ATTACH, *MESSAGES)
    for leg in passed.legs.values():
        assert leg.connection.state is ConnectionState.OPEN
        assert leg.connection.channels[1].session.name == b"s"
        assert (leg.connection.frame_max, leg.reader.frame_max) == (4096, 4096)
    assert (passed.passage.client.session, passed.passage.shown_client.user) == (3, "guest")
    names = [f"{sender} {channel} {each.name}" for sender, channel, each in passed.met]
    assert names[-3:] == ["server 0 connection.open-ok", "client 1 session.attach", "server 1 session.attached"]
    assert not passed.passage.is_full(CLIENT)


def test_taps_are_shown_all_with_the_ids_of_commands() -> None:
    passed = Passed(is_tapped=True)
    passed.play(*LOGIN[:5], *ATTACH)
    tuple(passed.passage.take_passed(CLIENT))
    passed.play(MESSAGES[0])
    ((note, chunk),) = passed.passage.take_passed(CLIENT)
    assert note is NOTHING
    assert chunk.data == MESSAGES[0][1]
    assert chunk.command_ids == [0, *[1] * 5, *[2] * 3, *[3] * 3]
    assert passed.passage.take_passed(CLIENT) == ()
    passed.passage.is_tapped = False
    passed.play(MESSAGES[4])
    assert passed.passage.take_passed(CLIENT) == ()
    passed.passage.end()


def test_what_is_wrong_in_a_session_is_for_the_broker_to_answer() -> None:
    passed = Passed()
    passed.play(*LOGIN, (CLIENT, method(SessionDetach(b"x")) + method(QueueDeclare())))
    assert not passed.violations


def test_what_is_wrong_on_the_connection_is_reported_once() -> None:
    passed = Passed()
    again = (CLIENT, method(ConnectionStartOk(), 0))
    passed.play(*LOGIN, again, again, *ATTACH)
    ((sender, error),) = passed.violations
    assert (sender, int(error.code)) == (CLIENT, 501)
    assert not passed.legs[SERVER].connection.channels.get(1)


def test_a_control_in_several_frames() -> None:
    data = method(ConnectionStartOk(mechanism="PLAIN", response=b"\0u\0" + b"x" * 9000), 0)
    passed = Passed()

    passed.play(*LOGIN[:2], (CLIENT, encode_segment(12, 0, 0, data[12:], 4096)), *LOGIN[3:])
    assert passed.legs[CLIENT].connection.state is ConnectionState.OPEN
    assert passed.passage.client.user == "u", "a client cannot hide who it is"
    assert [each.name for _, _, each in passed.met][1:3] == ["connection.start-ok", "connection.tune"]


def test_controls_in_several_frames_on_two_channels_at_once() -> None:
    passed = Passed()
    passed.play(*LOGIN)
    first, second = (encode_segment(12, 0, 1 + place, method(SessionAttach(b"s" * 9))[12:], 20) for place in range(2))
    passed.met.clear()
    passed.play(*((CLIENT, each[at : at + 20]) for at in range(0, len(first), 20) for each in (first, second)))
    assert passed.met == [(CLIENT, channel, SessionAttach(b"s" * 9)) for channel in (1, 2)]
