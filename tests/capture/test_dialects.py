"""The secrets in bytes that are not frames, of each protocol."""

from __future__ import annotations

import pytest

from amqproxy.amqp091.protocol_header import DECODED
from amqproxy.capture.decoded import SkippedBytes
from amqproxy.capture.dialects import masked_rubbish, protocol_of

SECRETS = {"0-9-1": b"\0\x0a\0\x15hidden", "0-10": b"\x01\x04hidden"}


def test_every_decoded_protocol_is_tried() -> None:
    assert set(SECRETS) == DECODED


@pytest.mark.parametrize("protocol", SECRETS)
def test_what_could_be_a_secret_is_masked(protocol: str) -> None:
    data = b"rubbish" + SECRETS[protocol]
    skipped = SkippedBytes(1, 1, "a:1-b:2", "client", protocol, "a reason", 0, len(data), data=data)
    masked = masked_rubbish(skipped)
    assert masked == data.replace(b"hidden", b"******")
    assert (protocol_of(skipped) == "0-10") == ("0-10" in protocol)
