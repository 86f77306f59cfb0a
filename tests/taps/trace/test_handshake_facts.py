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


def test_the_last_step_counts() -> None:
    facts = HandshakeFacts()
    assert facts.step is None
    for name in ("connection.start", "connection.start-ok", "connection.close"):
        facts.take_step(name)
    assert facts.step == "connection.start-ok"


def test_a_capability_is_known_once_the_client_has_said_who_it_is() -> None:
    facts = HandshakeFacts()
    assert facts.has_capability("basic.nack") is None
    for properties, found in (
        ({}, False),
        ({"capabilities": 1}, False),
        ({"capabilities": {"basic.nack": False}}, False),
        ({"capabilities": {"basic.nack": True}}, True),
    ):
        facts.client_properties = properties
        assert facts.has_capability("basic.nack") is found
