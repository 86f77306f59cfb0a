"""A content as it comes in frames."""

from __future__ import annotations

import pickle
from hashlib import blake2b
from itertools import pairwise

from amqproxy.amqp091.methods import BasicPublish
from amqproxy.amqp091.properties import Properties
from amqproxy.taps.trace.content import DIGEST_BLOCK, BodyDigest, PartialContent


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


def test_a_digest_is_of_the_whole_body_however_it_is_cut() -> None:
    whole, cut, other = (PartialContent(BasicPublish(), 1, is_digested=True) for _ in range(3))
    for content, parts in ((whole, [b"abcd"]), (cut, [b"a", b"", b"bcd"]), (other, [b"abce"])):
        content.add_header(4, Properties())
        for part in parts:
            assert content.wants_body
            content.add_body(len(part), part)
    assert whole.digest == cut.digest != other.digest
    assert whole.body == b"a"
    assert PartialContent(BasicPublish(), 4).digest == b""


def test_a_digest_of_many_blocks_can_be_gone_on_with_elsewhere() -> None:
    body = bytes(range(256)) * 100
    digests = set()
    for cuts in ([], [1], [DIGEST_BLOCK], [DIGEST_BLOCK - 1, DIGEST_BLOCK + 1, 3 * DIGEST_BLOCK]):
        digest = BodyDigest()
        for start, stop in pairwise([0, *cuts, len(body)]):
            digest.update(body[start:stop])
            digest = pickle.loads(pickle.dumps(digest))
        digests.add(digest.digest())
    assert len(digests) == 1
    short, whole = BodyDigest(), blake2b(body[:DIGEST_BLOCK], digest_size=16)
    short.update(body[:DIGEST_BLOCK])
    assert short.digest() == whole.digest()
