"""What the peers agree on."""

from amqproxy.amqp010.controls import ConnectionSecureOk, ConnectionStartOk, ConnectionTune, ConnectionTuneOk
from amqproxy.amqp010.wire import Map
from amqproxy.taps.trace.amqp010.handshake import Amqp010Handshake
from amqproxy.taps.trace.handshake_facts import HandshakeFacts
from tests.taps.trace.amqp010.traced import START


def test_what_tune_ok_leaves_out_is_as_offered() -> None:
    handshake = Amqp010Handshake(HandshakeFacts())
    handshake.learn(ConnectionTune(channel_max=7, max_frame_size=5000, heartbeat_min=0, heartbeat_max=9))
    handshake.learn(ConnectionTuneOk())
    opened = handshake.opened(5)
    assert (opened.channel_max, opened.frame_max, opened.heartbeat) == (7, 5000, 0)


def test_what_was_not_seen_is_not_known() -> None:
    opened = Amqp010Handshake(HandshakeFacts()).opened(5)
    assert {opened.virtual_host, opened.user, opened.heartbeat, opened.latency_ns} == {None}


def test_the_last_answer_of_the_client_is_known() -> None:
    handshake = Amqp010Handshake(HandshakeFacts())
    for _, control in START[:2]:
        handshake.learn(control)
    assert handshake.answered == "connection.start-ok"
    handshake.learn(ConnectionSecureOk(response=b"secret"))
    assert handshake.answered == "connection.secure-ok"
    assert handshake.opened(0).client_properties == dict(Map())


def test_a_user_that_is_named_in_answer_to_a_challenge() -> None:
    handshake = Amqp010Handshake(HandshakeFacts())
    handshake.learn(ConnectionStartOk(mechanism="PLAIN"))
    assert handshake.facts.user is None
    handshake.learn(ConnectionSecureOk(b"\0me\0secret"))
    handshake.learn(ConnectionSecureOk(b"more"))
    assert handshake.opened(5).user == "me"
