"""Bodies in the forms in which people read them."""

from __future__ import annotations

import gzip
import io
import json
import sys
import zlib

import fastavro
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from amqproxy.bodies.body_views import FORMS, MAX_UNPACKED, Form, NotInForm, body_view
from amqproxy.capture.compression import zstd
from tests.example_count import example_count

pytestmark = pytest.mark.once

VALUE = {"order": 7, "items": [1.5, None, True], "name": "é"}
JSON = json.dumps(VALUE, ensure_ascii=False).encode()
SCHEMA = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "number", "type": "int"}]})
PROTO = 'syntax = "proto3"; package shop; message Order { int32 number = 1; string name = 2; } message Other {}'


def avro() -> bytes:
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, fastavro.parse_schema(json.loads(SCHEMA)), {"number": 7})
    return stream.getvalue()


@pytest.mark.parametrize(
    ("body", "options", "form", "unpacked"),
    [
        (JSON, {}, "json", []),
        (b"plain", {}, "text", []),
        (b"{no json", {}, "text", []),
        (b"\xff\x00", {}, "hex", []),
        (b"", {}, "text", []),
        (msgspec.msgpack.encode(VALUE), {"content_type": "application/msgpack"}, "msgpack", []),
        (gzip.compress(JSON, mtime=0), {}, "json", ["gzip"]),
        (zlib.compress(JSON), {"content_encoding": "deflate"}, "json", ["deflate"]),
        (zstd.compress(JSON), {}, "json", ["zstd"]),
        (JSON, {"content_encoding": "gzip"}, "json", []),
    ],
)
def test_a_form_that_fits_is_found(body: bytes, options: dict[str, str], form: str, unpacked: list[str]) -> None:
    view = body_view(body, **options)  # type: ignore[arg-type]
    assert (view.form, view.unpacked, view.is_cut) == (form, unpacked, False)
    if form in ("json", "msgpack"):
        assert json.loads(view.text) == VALUE


@pytest.mark.parametrize(("form", "schema"), [("avro", SCHEMA), ("protobuf", PROTO)])
def test_without_their_packages_forms_say_what_to_install(
    monkeypatch: pytest.MonkeyPatch, form: Form, schema: str
) -> None:
    for package in ("fastavro", "grpc_tools", "google.protobuf"):
        monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(NotInForm, match=r"pip install 'amqproxy\[bodies\]'"):
        body_view(b"\0\x0e", form, schema=schema)
    assert body_view(b"\0\x0e", content_type="avro/binary").form == "hex"


def test_avro_takes_a_schema_with_or_without_a_registry() -> None:
    for body in (avro(), b"\0\0\0\0\5" + avro()):
        assert json.loads(body_view(body, "avro", schema=SCHEMA).text) == {"number": 7}
    with pytest.raises(NotInForm, match="needs its schema"):
        body_view(avro(), "avro")
    with pytest.raises(NotInForm, match="schema is not right"):
        body_view(avro(), "avro", schema="{}")
    with pytest.raises(NotInForm, match="does not fit"):
        body_view(b"\xff" * 20, "avro", schema=SCHEMA)


def test_protobuf_is_read_with_a_schema_and_without() -> None:
    body = b"\x08\x07\x12\x02hi"
    fields = json.loads(body_view(body, "protobuf").text)
    assert [(each["field"], each["value"]) for each in fields] == [(1, 7), (2, "hi")]
    assert json.loads(body_view(body, "protobuf", schema=PROTO).text) == {"number": 7, "name": "hi"}
    with pytest.raises(NotInForm, match=r"no message 'shop\.X', but shop\.Order, shop\.Other"):
        body_view(body, "protobuf", schema=PROTO, message="shop.X")
    with pytest.raises(NotInForm, match=r"schema\.proto:1:"):
        body_view(body, "protobuf", schema="message {")


def test_a_bomb_is_cut() -> None:
    bomb = gzip.compress(b"a" * (MAX_UNPACKED + 1))
    view = body_view(bomb)
    assert view.is_cut
    assert len(view.text) <= MAX_UNPACKED


def test_what_is_nested_deep_is_refused_not_fatal() -> None:
    with pytest.raises(NotInForm):
        body_view(b"\x91" * 100_000, "msgpack")
    assert body_view(b"[" * 100_000).form in ("text", "hex")


@settings(max_examples=example_count(60), deadline=None)
@given(st.binary(max_size=60), st.sampled_from([form for form in FORMS if form != "avro"]))
def test_any_bytes_in_any_form_are_shown_or_refused(body: bytes, form: str) -> None:
    try:
        body_view(body, form).text.encode()  # type: ignore[arg-type]
    except NotInForm:
        assert form not in ("auto", "hex")
