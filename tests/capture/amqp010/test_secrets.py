"""Passwords of 0-10 in the bytes of frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.commands import ExecutionSync
from amqproxy.amqp010.controls import ConnectionSecureOk, ConnectionStartOk
from amqproxy.amqp010.frame import CONTROL, Frame, encode_frame, encode_method, encode_segment
from amqproxy.amqp010.login import user_of
from amqproxy.amqp010.protocol_header import HEADER
from amqproxy.amqp010.wire import Map
from amqproxy.capture.amqp010.secrets import masked, masked_rubbish

SYNC = encode_method(1, ExecutionSync())
START_OK = ConnectionStartOk(Map({"product": "p"}), "PLAIN", b"\0me\0hidden", "en_US")


def test_the_password_of_plain() -> None:
    data = HEADER + encode_method(0, START_OK) + SYNC
    shown = masked(data)
    assert shown == data.replace(b"hidden", b"******")
    method = Frame(shown[8 : -len(SYNC)]).method
    assert (method.response, method.locale) == (b"\0me\0******", "en_US")
    assert dict(method.client_properties) == {"product": "p"}


def test_the_nonce_of_scram() -> None:
    start = encode_method(0, ConnectionStartOk(None, "SCRAM-SHA-256", b"n,,n=me=2Cyou,r=hidden", "en_US"))
    shown = masked(start)
    assert shown == start.replace(b"r=hidden", b"********")
    for login in (Frame(shown).method, Frame(start).method):
        assert user_of(login.mechanism, login.response) == "me,you"


@pytest.mark.parametrize("mechanism", ["CRAM-MD5", "EXTERNAL", "PLAIN", "SCRAM-SHA-256", None])
def test_other_responses_are_masked_whole(mechanism: str | None) -> None:
    start = ConnectionStartOk(None, mechanism, b"hidden ticket")
    assert masked(encode_method(0, start)) == encode_method(0, start).replace(b"hidden ticket", b"*" * 13)
    secure = encode_method(0, ConnectionSecureOk(b"hidden ticket"))
    assert masked(SYNC + secure) == SYNC + secure.replace(b"hidden ticket", b"*" * 13)


def test_what_has_none_is_not_copied() -> None:
    for data in (SYNC, HEADER, b"", encode_method(0, ConnectionStartOk(None, "EXTERNAL")), b"\xff" * 20):
        assert masked(data) is data


def test_a_response_in_several_frames_is_masked_whole() -> None:
    payload = encode_method(0, ConnectionStartOk(None, "GSSAPI", b"hidden" * 1000))[12:]
    shown = masked(encode_segment(12, CONTROL, 0, payload, 4096))
    assert b"idde" not in shown
    assert b"idde" not in masked(encode_frame(13, CONTROL, 0, b"hidden"))
    later = encode_frame(13, CONTROL, 1, b"of a session")
    assert masked(later) is later


@pytest.mark.parametrize("segment_type", [0, 1, 15])
@pytest.mark.parametrize("channel", [0, 3])
@pytest.mark.parametrize("method", [START_OK, ConnectionSecureOk(b"hidden")])
def test_a_response_is_masked_though_its_segment_is_no_control(
    segment_type: int, channel: int, method: ConnectionStartOk | ConnectionSecureOk
) -> None:
    """Class 1 has no commands: a command with its codes is a login that was framed wrongly."""
    payload = encode_method(0, method)[12:]
    assert b"hidden" not in masked(encode_segment(12, segment_type, channel, payload, 4096))
    if segment_type == 0 and channel == 0:
        assert b"idde" not in masked(encode_segment(12, segment_type, channel, payload, 24))


@pytest.mark.parametrize("segment_type", [2, 3])
def test_messages_on_channel_0_are_left_as_they_are(segment_type: int) -> None:
    """Clients attach their first session to channel 0, as Apache's JMS client does."""
    payload = encode_method(0, START_OK)[12:] * 10
    frames = encode_segment(12, segment_type, 0, payload, 24)
    assert masked(frames) is frames


def test_what_is_malformed_is_masked_whole() -> None:
    frame = encode_method(0, START_OK)
    for cut in range(15, len(frame)):
        data = frame[:2] + cut.to_bytes(2) + frame[4:cut]
        assert b"idd" not in masked(data)


def test_rubbish() -> None:
    assert masked_rubbish(b"abc\x01\x02hidden") == b"abc\x01\x02******"
    assert masked_rubbish(b"abc") == b"abc"


@given(st.binary(max_size=200))
def test_sizes_stay(data: bytes) -> None:
    assert len(masked(data)) == len(data)
    assert len(masked_rubbish(data)) == len(data)
