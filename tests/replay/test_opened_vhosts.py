"""The virtual hosts of a capture."""

from __future__ import annotations

from amqproxy.amqp010 import controls
from amqproxy.replay.dialogue import steps_of
from amqproxy.replay.opened_vhosts import opened_vhosts
from tests.replay.amqp010.recordings import Amqp010Recording
from tests.replay.recordings import Recording


def test_those_of_both_protocols_that_the_broker_has_let_its_clients_into() -> None:
    one, other = Recording(), Amqp010Recording()
    one.open(0)
    other.open(1, vhost="test")
    other.open(2, vhost="refused")
    refused = [each for each in other.decoded if each.stream == 2][:-1]  # without connection.open-ok
    steps = steps_of([*one.decoded, *(each for each in other.decoded if each.stream == 1), *refused])
    assert opened_vhosts(steps) == {"/", "test"}


def test_what_is_refused_or_not_there_is_none() -> None:
    recording = Amqp010Recording()
    recording.client(0, 0, controls.ConnectionOpen("test"))
    recording.server(0, 0, controls.ConnectionClose(402, "no such virtual host"))
    assert opened_vhosts(recording.steps()) == set()
    assert opened_vhosts(Recording().steps()) == set()
