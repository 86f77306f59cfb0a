"""Secrets in bytes of frames."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.commands import Command
from amqproxy.amqp091.frame import encode_frame, encode_method, every_frame
from amqproxy.amqp091.methods import (
    BasicPublish,
    ConnectionSecureOk,
    ConnectionStartOk,
    ConnectionUpdateSecret,
    Method,
)
from amqproxy.amqp091.wire import Table
from amqproxy.capture.amqp091.secrets import masked, masked_rubbish

PUBLISH = Command(1, BasicPublish(exchange="e", routing_key="k"), body=b"\0\x0a\0\x0bsecret").encode(0)
AMQPLAIN = b"\x05LOGINS\0\0\0\x04anna\x08PASSWORDS\0\0\0\x06secret"


def start_ok(mechanism: str, response: bytes) -> Method:
    return ConnectionStartOk(Table({"product": "p"}), mechanism, response, "en_US")


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        (start_ok("PLAIN", b"\0anna\0secret"), start_ok("PLAIN", b"\0anna\0******")),
        (start_ok("PLAIN", b"as\0anna\0se\0et"), start_ok("PLAIN", b"as\0anna\0*****")),
        (start_ok("PLAIN", b"secret"), start_ok("PLAIN", b"******")),
        (start_ok("PLAIN", b""), start_ok("PLAIN", b"")),
        (start_ok("AMQPLAIN", AMQPLAIN), start_ok("AMQPLAIN", AMQPLAIN.replace(b"secret", b"******"))),
        (start_ok("AMQPLAIN", AMQPLAIN[:-1]), start_ok("AMQPLAIN", b"*" * (len(AMQPLAIN) - 1))),
        (start_ok("AMQPLAIN", b"\x01xI\0\0\0\x01"), start_ok("AMQPLAIN", b"*" * 7)),
        (start_ok("OTHER", b"\0anna\0secret"), start_ok("OTHER", b"*" * 12)),
        (ConnectionSecureOk(b"secret"), ConnectionSecureOk(b"******")),
        (ConnectionUpdateSecret(b"secret", "expired"), ConnectionUpdateSecret(b"******", "expired")),
    ],
)
def test_secrets_are_masked_at_the_same_length(method: Method, expected: Method) -> None:
    data, masked_data = (PUBLISH + encode_method(0, each) + PUBLISH for each in (method, expected))
    assert masked(data) == masked_data


def test_what_has_no_secrets_is_not_even_copied() -> None:
    data = PUBLISH * 100
    assert masked(data) is data
    assert masked_rubbish(b"GET / HTTP/1.1") == b"GET / HTTP/1.1"


@given(st.data(), st.sampled_from([start_ok("PLAIN", b"\0anna\0" + b"\xfe" * 20), ConnectionSecureOk(b"\xfe" * 20)]))
def test_of_malformed_methods_all_is_masked_that_could_be_a_secret(data: st.DataObject, method: Method) -> None:
    """The secret is of a byte that is nowhere else: whatever a peer gets wrong, and whatever is cut, none is left."""
    payload = bytearray(method.encode())
    for _ in range(data.draw(st.integers(0, 3))):
        payload[data.draw(st.integers(4, len(payload) - 1))] = data.draw(st.sampled_from([0, 1, 5, 20, 127, 255]))
    payload = payload[: data.draw(st.integers(4, len(payload)))]
    frame = encode_frame(1, 0, bytes(payload))
    result = masked(PUBLISH + frame + PUBLISH)
    assert len(result) == len(PUBLISH + frame + PUBLISH)
    assert result[: len(PUBLISH)] == result[-len(PUBLISH) :] == PUBLISH
    if b"\xfe" * 20 in payload:
        assert b"\xfe" * 2 not in result
    assert len(every_frame(result, 0)) == len(every_frame(PUBLISH + frame + PUBLISH, 0))
    broken = masked_rubbish(masked(PUBLISH + frame[:-1] + b"\0"))
    assert b"\xfe" not in broken
