"""What passes between two legs without rules, and what both legs and a tap see of it."""

from collections.abc import Iterator
from itertools import count

import pytest

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.transitions import CLIENT, SERVER, ConnectionState, Peer
from amqproxy.proxy.amqp091.leg import Amqp091Leg
from amqproxy.proxy.amqp091.pass_through import PassThrough
from amqproxy.rules.context import Client
from amqproxy.taps.note import NOTHING
from tests.proxy.legs import leg_in
from tests.transcripts.words import octets, words

PUBLISH = "1: basic.publish, 1: header 5, 1: body 5"
OPENING = "1: channel.open"


class Between:
    """A pass-through between two open legs."""

    def __init__(self, *, is_tapped: bool = False, state: ConnectionState = ConnectionState.OPEN) -> None:
        self.met: list[tuple[Peer, Method]] = []
        self.legs: dict[Peer, Amqp091Leg] = {peer: leg_in(state, peer)[0] for peer in (CLIENT, SERVER)}
        self.passage = PassThrough(self.legs, Client(session=1), self.met, is_tapped=is_tapped)
        self.passage.ask_for_frames()

    def send(self, sender: Peer, text: str) -> list[Frame]:
        """Have the sender's reader read this, and the pass-through take what that hands over."""
        frames = self.legs[sender].reader.feed(octets(text))
        self.passage.take(sender, frames, 0.0)
        return frames

    def met_names(self) -> list[str]:
        return [f"{sender} {method.name}" for sender, method in self.met]


def test_the_very_bytes_that_were_received_pass() -> None:
    between = Between()
    between.send(CLIENT, OPENING)
    data = octets(f"{PUBLISH}, 1: tx.select")
    frames = between.legs[CLIENT].reader.feed(data)
    between.passage.take(CLIENT, frames, 0.0)
    assert [frame.method.name for frame in frames] == ["tx.select"]
    assert between.passage.take_output(CLIENT) == b""
    assert between.passage.take_output(SERVER) is data
    assert between.passage.take_output(SERVER) == b""


def test_both_legs_see_what_changes_the_connection_and_the_session_is_handed_it() -> None:
    between = Between()
    between.send(CLIENT, OPENING)
    between.send(SERVER, "1: channel.open-ok")
    assert all(list(leg.connection.channels) == [1] for leg in between.legs.values())
    assert between.met_names() == ["client channel.open", "server channel.open-ok"]


def test_publishes_are_not_handed_over_at_all() -> None:
    between = Between()
    between.send(CLIENT, OPENING)
    assert between.passage.relays_unseen
    assert between.legs[CLIENT].reader.feed(octets(PUBLISH)) == []


def test_frames_before_an_error_have_passed() -> None:
    between = Between()
    with pytest.raises(ProtocolError):
        between.send(CLIENT, f"{OPENING}, connection.tune-ok")
    assert words(bytes(between.passage.take_output(SERVER))) == OPENING
    assert between.met_names() == ["client channel.open"]


def test_an_error_of_a_channel_is_for_the_broker_to_answer() -> None:
    between = Between()
    wrong = f"{OPENING}, 1: tx.select, 1: confirm.select"
    between.send(CLIENT, wrong)
    assert words(bytes(between.passage.take_output(SERVER))) == wrong


def test_a_tap_sees_every_frame_once() -> None:
    between = Between(is_tapped=True)
    between.send(CLIENT, f"{OPENING}, {PUBLISH}, heartbeat")
    assert between.passage.take_passed(SERVER) == ()
    [(note, frames)] = between.passage.take_passed(CLIENT)
    assert note is NOTHING
    assert words(b"".join(frame.raw for frame in frames)) == f"{OPENING}, {PUBLISH}, heartbeat"
    assert between.passage.take_passed(CLIENT) == ()


def test_without_a_tap_no_frame_is_kept() -> None:
    between = Between()
    between.send(CLIENT, OPENING)
    assert between.passage.take_passed(CLIENT) == ()


def test_a_gate_withholds_frames_from_the_other_leg() -> None:
    between = Between()
    numbers: Iterator[int] = count()
    between.passage.gate = lambda sender, frame: next(numbers) != 1
    between.passage.ask_for_frames()
    assert not between.passage.relays_unseen
    between.send(CLIENT, f"{OPENING}, 2: channel.open, heartbeat")
    assert words(bytes(between.passage.take_output(SERVER))) == f"{OPENING}, heartbeat"
    assert {peer: list(leg.connection.channels) for peer, leg in between.legs.items()} == {CLIENT: [1, 2], SERVER: [1]}
    assert between.met_names() == ["client channel.open", "client channel.open"]


def test_legs_no_longer_see_channels_once_the_client_is_leaving() -> None:
    between = Between()
    between.passage.is_draining = True
    between.send(CLIENT, f"{OPENING}, connection.close")
    assert all(not leg.connection.channels for leg in between.legs.values())
    assert between.met_names() == ["client connection.close"]


def test_what_is_known_of_the_client_grows_with_the_handshake() -> None:
    between = Between(state=ConnectionState.STARTED)
    assert between.passage.client.user == ""
    between.send(CLIENT, "connection.start-ok")
    assert between.passage.client.user == "guest"
    assert between.passage.shown_client == between.passage.client


def test_nothing_waits_and_nothing_is_held() -> None:
    passage = Between().passage
    passage.release_all(0.0)
    assert not passage.waiting
    with pytest.raises(KeyError):
        passage.release(1, None, 0.0)
