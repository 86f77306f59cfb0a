"""What a handshake has shown."""

from amqproxy.taps.trace.handshake_facts import HandshakeFacts


def test_what_was_not_seen_is_not_known() -> None:
    opened = HandshakeFacts().opened(5)
    assert opened.ts_ns == 5
    assert {opened.virtual_host, opened.user, opened.mechanism, opened.client_properties} == {None}
    assert {opened.channel_max, opened.frame_max, opened.heartbeat, opened.latency_ns} == {None}


def test_the_first_protocol_header_is_the_beginning() -> None:
    facts = HandshakeFacts()
    facts.greet(10)
    facts.greet(20)
    assert facts.opened(100).latency_ns == 90
