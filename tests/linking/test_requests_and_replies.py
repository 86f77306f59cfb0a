"""Requests and their replies."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.properties import Properties
from amqproxy.linking.message_linker import MessageLinker
from tests.linking.events import opened, published


def _lives(*sent: tuple[str, Properties]) -> MessageLinker:
    linker = MessageLinker(1 << 20)
    linker.take(1, [opened()])
    for number, (routing_key, properties) in enumerate(sent, 1):
        linker.take(1, [published(number, routing_key=routing_key, number=number, properties=properties)])
    return linker


@pytest.mark.parametrize(
    ("reply_to", "routing_key"), [("answers", "answers"), ("amq.rabbitmq.reply-to", "amq.rabbitmq.reply-to.g1h2")]
)
def test_a_reply_is_linked_to_its_request(reply_to: str, routing_key: str) -> None:
    lives = _lives(
        ("k", Properties(correlation_id="1", reply_to=reply_to)), (routing_key, Properties(correlation_id="1"))
    ).lives
    assert (lives[2].request, lives[2].request_among, lives[1].replies) == (1, 1, [2])


def test_a_request_without_correlation_id_is_answered_by_its_message_id() -> None:
    lives = _lives(
        ("k", Properties(message_id="m", reply_to="answers")), ("answers", Properties(correlation_id="m"))
    ).lives
    assert lives[2].request == 1


def test_of_alike_requests_the_first_without_a_reply_is_taken() -> None:
    request = ("k", Properties(correlation_id="1", reply_to="answers"))
    reply = ("answers", Properties(correlation_id="1"))
    lives = _lives(request, request, reply, reply).lives
    assert (lives[3].request, lives[3].request_among, lives[4].request) == (1, 2, 2)


def test_a_message_to_another_queue_is_no_reply() -> None:
    lives = _lives(
        ("k", Properties(correlation_id="1", reply_to="answers")), ("other", Properties(correlation_id="1"))
    ).lives
    assert lives[2].request is None


def test_requests_are_forgotten_with_their_lives() -> None:
    linker = MessageLinker(1000)
    linker.take(1, [opened()])
    for number in range(1, 50):
        properties = Properties(correlation_id=str(number), reply_to="answers")
        linker.take(1, [published(number, number=number, properties=properties)])
    assert len(linker._requests._requests) == len(linker.lives) < 3
