"""What the methods of a handshake show."""

from amqproxy.amqp091.methods import (
    ChannelOpen,
    ConnectionOpen,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from amqproxy.amqp091.wire import Table
from amqproxy.taps.trace.amqp091.handshake import learn
from amqproxy.taps.trace.handshake_facts import HandshakeFacts


def test_what_both_say_of_themselves_and_agree_on() -> None:
    facts = HandshakeFacts()
    for method in (
        ConnectionStart(server_properties=Table({"product": "b"})),
        ConnectionStartOk(client_properties=Table({"product": "c"}), mechanism="PLAIN", response=b"\0u\0p"),
        ConnectionTune(channel_max=1, frame_max=2, heartbeat=3),
        ConnectionTuneOk(channel_max=7, frame_max=8192, heartbeat=9),
        ConnectionOpen("v"),
        ChannelOpen(),
    ):
        learn(facts, method)
    opened = facts.opened(0)
    assert (opened.server_properties, opened.client_properties) == ({"product": "b"}, {"product": "c"})
    assert (opened.mechanism, opened.user, opened.virtual_host) == ("PLAIN", "u", "v")
    assert (opened.channel_max, opened.frame_max, opened.heartbeat) == (7, 8192, 9)
