"""A content as it comes in frames."""

from __future__ import annotations

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.taps.trace.content import PartialContent


def test_a_content_in_parts() -> None:
    content = PartialContent(BasicPublish(), 5)
    assert not content.has_header
    content.add_header(7, Properties(type="t"))
    content.add_body(3, b"abc")
    content.add_body(0, b"")
    assert not content.is_complete
    content.add_body(4, b"defg")
    assert content.is_complete
    assert not content.wants_body
    assert (content.size, content.body, content.properties) == (7, b"abcde", Properties(type="t"))


def test_a_content_without_a_body() -> None:
    content = PartialContent(BasicPublish(), 0)
    content.add_header(0, Properties())
    assert content.is_complete
    assert content.body == b""


def test_nothing_is_kept_of_a_body_that_is_not_wanted() -> None:
    content = PartialContent(BasicPublish(), 0)
    content.add_header(2, Properties())
    content.add_body(2, b"xy")
    assert content.is_complete
    assert content.body == b""
