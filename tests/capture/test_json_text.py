"""Texts as JSON: in the lines of frames, in either form."""

from __future__ import annotations

import base64
import json

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp091.frame import encode_method
from amqproxy.amqp091.methods import ConnectionClose
from amqproxy.capture.amqp091.decoded_frames import Amqp091DecodedFrames
from amqproxy.capture.json_lines import JSONLines
from amqproxy.taps.amqp091.chunk import Amqp091Chunk
from tests.capture.any_frames import WHERE


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_a_text_is_what_it_was(text: str) -> None:
    kept = text.encode()[:255].decode(errors="ignore")
    lines = JSONLines()
    lines.add(Amqp091DecodedFrames(*WHERE, Amqp091Chunk(encode_method(0, ConnectionClose(200, kept)), 0)))
    assert json.loads(lines.take())["arguments"]["reply_text"] == kept


@given(st.binary(max_size=255))
def test_bytes_that_are_no_utf_8_are_shown_as_base64(data: bytes) -> None:
    lines = JSONLines()
    text = data.decode("utf-8", "surrogateescape")
    lines.add(Amqp091DecodedFrames(*WHERE, Amqp091Chunk(encode_method(0, ConnectionClose(200, text)), 0)))
    try:
        shown: object = data.decode()
    except UnicodeDecodeError:
        shown = {"base64": base64.b64encode(data).decode()}
    line = json.loads(lines.take())
    assert line["arguments"]["reply_text"] == shown if line["type"] == "method" else line["type"] == "error"
