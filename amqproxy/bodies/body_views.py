"""Bodies in readable form: text, JSON, MessagePack, Protobuf, Avro or hex, decompressed first where necessary.

A hostile body may crash a decoder or keep it busy forever: this runs in a child process, `body_child`.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from decimal import Decimal
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from amqproxy import addons
from amqproxy.taps.record import encoded, json_value

Form: TypeAlias = Literal["auto", "text", "json", "msgpack", "gzip", "protobuf", "avro", "hex"]
FORMS = get_args(Form)

MAX_UNPACKED = 4 * 1024 * 1024
"""Maximum size of a decompressed body, in bytes; the rest is not shown."""

MAX_SHOWN = 1024 * 1024
"""Maximum length of the shown text, in characters."""

MAX_HEX = 64 * 1024
"""Maximum number of bytes that are shown as hex."""

COMPILE_SECONDS = 10.0
"""Time limit for protoc to compile a schema, in seconds."""

MAX_DEPTH = 32
"""Maximum depth of Protobuf messages that are decoded without a schema."""

_PACKED = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd"}
_ENCODINGS = {"gzip": "gzip", "x-gzip": "gzip", "deflate": "deflate", "zstd": "zstd"}
_TYPES: tuple[tuple[str, Form], ...] = (
    ("json", "json"),
    ("msgpack", "msgpack"),
    ("protobuf", "protobuf"),
    ("avro", "avro"),
    ("text/", "text"),
)
_AVRO_FILE = b"Obj\x01"
_REGISTRY_HEAD = 5
"""Bytes that schema registries put before Avro data: a 0, and the schema's id."""


class NotInForm(ValueError):
    """The body is not in the requested form, or the schema is invalid."""


class BodyView(msgspec.Struct, frozen=True, kw_only=True):
    """A body in `form`; `unpacked` lists the compressions that were removed, `is_cut` if a part is left out."""

    form: str
    text: str
    unpacked: list[str]
    is_cut: bool


def body_view(
    body: bytes,
    form: Form = "auto",
    *,
    content_type: str = "",
    content_encoding: str = "",
    schema: str = "",
    message: str = "",
) -> BodyView:
    """Return a body in a form; "auto" selects a fitting one.

    `schema` is an Avro schema, or a .proto file that defines `message`, by default its first one. `NotInForm` if the
    body cannot be shown in this form.
    """
    unpacked: list[str] = []
    is_cut = False
    if form != "hex":
        body, unpacked, is_cut = _opened(body, content_encoding, is_gzip=form == "gzip")
    if form in ("auto", "gzip"):
        chosen, text = _guessed(body, content_type)
    else:
        chosen, text = form, _shown(body, form, schema, message)
    return BodyView(
        form=chosen,
        text=text[:MAX_SHOWN],
        unpacked=unpacked,
        is_cut=is_cut or len(text) > MAX_SHOWN or (chosen == "hex" and len(body) > MAX_HEX),
    )


def addon_view(body: bytes, *, content_type: str = "", content_encoding: str = "") -> BodyView | None:
    """Return a body as the first addon that reads it does, its text being JSON; `None` if there is none."""
    body, unpacked, is_cut = _opened(body, content_encoding)
    found = None if is_cut else _by_addon(body, content_type)
    if found is None:
        return None
    text = encoded(_plain(found[1])).decode()
    return None if len(text) > MAX_SHOWN else BodyView(form=found[0], text=text, unpacked=unpacked, is_cut=False)


def _opened(body: bytes, content_encoding: str, *, is_gzip: bool = False) -> tuple[bytes, list[str], bool]:
    """Return the decompressed body, the compressions removed, and whether some of it is left out."""
    unpacked: list[str] = []
    is_cut = False
    packing = "gzip" if is_gzip else _packing_of(body, content_encoding)
    while packing and len(unpacked) < 3:
        try:
            body, is_cut = _unpacked(body, packing)
        except (zlib.error, ValueError, OSError) as error:
            if is_gzip:
                raise NotInForm(f"it is not packed with gzip: {error}") from None
            break
        unpacked.append(packing)
        packing = _packing_of(body, "")
    return body, unpacked, is_cut


def _packing_of(body: bytes, content_encoding: str) -> str:
    named = _ENCODINGS.get(content_encoding.strip().lower(), "")
    return named or next((name for magic, name in _PACKED.items() if body.startswith(magic)), "")


def _unpacked(body: bytes, packing: str) -> tuple[bytes, bool]:
    """Return the decompressed bytes, and whether some of them are left out."""
    if packing == "zstd":
        from amqproxy.capture.compression import zstd

        try:
            data = zstd.ZstdDecompressor().decompress(body, MAX_UNPACKED + 1)
        except zstd.ZstdError as error:
            raise ValueError(str(error)) from None
        return data[:MAX_UNPACKED], len(data) > MAX_UNPACKED
    decompress = zlib.decompressobj(wbits=47 if packing == "gzip" else -15 if body[:1] != b"\x78" else 15)
    data = decompress.decompress(body, MAX_UNPACKED)
    if not data and body:
        raise ValueError("there is nothing in it")
    return data, not decompress.eof


def _guessed(body: bytes, content_type: str) -> tuple[str, str]:
    """Return the form that an addon reads, the content type names or the body looks like, and the text in that form."""
    if (found := _by_addon(body, content_type)) is not None:
        name, value = found
        return name, value if isinstance(value, str) else _as_json(value)
    named = next((form for word, form in _TYPES if word in content_type.lower()), None)
    for form in (named, "json" if body[:1] in (b"{", b"[") else None, "text"):
        if form is not None:
            try:
                return form, _shown(body, form, "", "")
            except NotInForm:
                continue
    return "hex", _hex(body)


def _by_addon(body: bytes, content_type: str) -> tuple[str, Any] | None:
    """Return the form of the first addon that reads the body, and its value, which JSON can hold."""
    for name, decode in _added().items():
        try:
            value = decode(body, content_type)
            if value is not None:
                encoded(_plain(value))
                return name, value
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            addons.fail(addons.BODIES, name, error)
    return None


def _shown(body: bytes, form: Form, schema: str, message: str) -> str:
    show = _FORMS[form]
    try:
        return show(body, schema, message)
    except NotInForm:
        raise
    except RecursionError:
        raise NotInForm("it is nested too deep") from None
    except MemoryError:
        raise NotInForm("it becomes too large") from None
    except Exception as error:  # noqa: BLE001 - decoders raise anything for data that is not in their form
        raise NotInForm(f"it cannot be read as {form}: {error}") from None


def _text(body: bytes, schema: str, message: str) -> str:
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise NotInForm(f"it is no text in UTF-8: byte {error.start} is {body[error.start]:#04x}") from None
    if any(not (each.isprintable() or each in "\t\n\r") for each in text[:MAX_SHOWN]):
        raise NotInForm("it has characters that cannot be printed")
    return text


def _json(body: bytes, schema: str, message: str) -> str:
    return msgspec.json.format(body, indent=2).decode()


def _msgpack(body: bytes, schema: str, message: str) -> str:
    value = msgspec.msgpack.decode(body, ext_hook=lambda code, data: {"ext": code, "data": bytes(data)})
    return _as_json(value)


def _protobuf(body: bytes, schema: str, message: str) -> str:
    if schema:
        return _protobuf_by_schema(body, schema, message)
    fields = _protobuf_fields(body, 0)
    if fields is None:
        raise NotInForm("it is no Protobuf")
    return _as_json(fields)


def _avro(body: bytes, schema: str, message: str) -> str:
    fastavro = _of_extra("fastavro")
    if body.startswith(_AVRO_FILE):
        records = []
        for record in fastavro.reader(io.BytesIO(body)):
            records.append(record)
            if len(records) >= 1000:
                break
        return _as_json(records)
    if not schema:
        raise NotInForm("Avro needs its schema, in JSON")
    try:
        parsed = fastavro.parse_schema(json.loads(schema))
    except (ValueError, KeyError, TypeError, fastavro.schema.SchemaParseException) as error:
        raise NotInForm(f"the schema is not right: {error}") from None
    starts = (_REGISTRY_HEAD, 0) if body[:1] == b"\0" else (0,)
    failure: Exception = ValueError("it is empty")
    for start in starts:
        stream = io.BytesIO(body[start:])
        try:
            value = fastavro.schemaless_reader(stream, parsed, None)
            if stream.tell() == len(body) - start:
                return _as_json(value)
            failure = ValueError("there are bytes behind it")
        except Exception as error:  # noqa: BLE001 - fastavro raises many kinds
            failure = error
    raise NotInForm(f"it does not fit the schema: {failure}")


def _hex_form(body: bytes, schema: str, message: str) -> str:
    return _hex(body)


def _hex(body: bytes) -> str:
    """Render lines of sixteen bytes: offset, hex, characters."""
    lines = []
    for at in range(0, min(len(body), MAX_HEX), 16):
        part = body[at : at + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:08x}  {part.hex(' '):<47}  {shown}")
    return "\n".join(lines)


@cache
def _added() -> dict[str, Callable[[bytes, str], Any]]:
    """Return the decoders of addons: functions of a body and its content type that return `None` for other forms."""
    return addons.loaded(addons.BODIES, check_body_decoder)


def check_body_decoder(name: str, decode: Any) -> None:
    """Raise `ValueError` unless an addon can be a form of bodies."""
    if not callable(decode):
        raise ValueError("it is not a function of a body and its content type")
    if name in FORMS:
        raise ValueError("amqproxy has a form of that name")


_FORMS: dict[str, Callable[[bytes, str, str], str]] = {
    "text": _text,
    "json": _json,
    "msgpack": _msgpack,
    "protobuf": _protobuf,
    "avro": _avro,
    "hex": _hex_form,
}


def _as_json(value: Any) -> str:
    return msgspec.json.format(encoded(_plain(value)), indent=2).decode()


def _plain(value: Any) -> Any:
    """Return a value in a form that JSON can hold."""
    if isinstance(value, dict):
        return {str(_plain(name)): _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, bytes | str):
        return json_value(value)
    return str(value) if isinstance(value, Decimal) or hasattr(value, "isoformat") else msgspec.to_builtins(value)


# --- Protobuf


_WIRE_TYPES = {0: "varint", 1: "fixed64", 2: "bytes", 5: "fixed32"}


def _protobuf_fields(data: bytes, depth: int) -> list[dict[str, Any]] | None:
    """Return a message's fields by number, `None` if it is invalid; types of length-delimited values are guessed."""
    fields: list[dict[str, Any]] = []
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        number, kind = key >> 3, key & 7
        if at < 0 or not 0 < number < 1 << 29:
            return None
        value: Any
        if kind == 0:
            value, at = _varint(data, at)
            if at < 0:
                return None
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            value, at = int.from_bytes(data[at : at + size], "little"), at + size
        elif kind == 2:
            length, at = _varint(data, at)
            if at < 0 or at + length > len(data):
                return None
            value, at = _length_delimited(data[at : at + length], depth), at + length
        else:
            return None
        if at > len(data):
            return None
        fields.append({"field": number, "type": _WIRE_TYPES[kind], "value": value})
    return fields if fields or not depth else None


def _length_delimited(data: bytes, depth: int) -> Any:
    try:
        text = data.decode()
        if text.isprintable():
            return text
    except UnicodeDecodeError:
        pass
    nested = _protobuf_fields(data, depth + 1) if depth < MAX_DEPTH else None
    return data if nested is None else nested


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the offset where it ends; -1 if it does not end within the data."""
    value = shift = 0
    while at < len(data) and shift < 64:
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value & (1 << 64) - 1, at
        shift += 7
    return 0, -1


def _protobuf_by_schema(body: bytes, schema: str, message: str) -> str:
    compiled = _compiled(schema)
    from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
    from google.protobuf.message import DecodeError

    pool = descriptor_pool.DescriptorPool()
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled)
    names: list[str] = []
    for each in files.file:
        pool.Add(each)
        if each.name == _PROTO:
            names = [f"{each.package}.{one.name}".lstrip(".") for one in each.message_type]
    if not names:
        raise NotInForm("the schema has no message")
    name = message or names[0]
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        raise NotInForm(f"the schema has no message {name!r}, but {', '.join(names)}") from None
    made = message_factory.GetMessageClass(descriptor)()
    try:
        made.ParseFromString(body)
    except DecodeError as error:
        raise NotInForm(f"it is no {name}: {error}") from None
    return str(json_format.MessageToJson(made, preserving_proto_field_name=True, indent=2, descriptor_pool=pool))


_PROTO = "schema.proto"


def _of_extra(package: str) -> Any:
    """Import a package of the extra `amqproxy[bodies]`; raise `NotInForm` with the remedy if it is not installed."""
    try:
        return import_module(package)
    except ImportError:
        raise NotInForm(f"this needs {package}: pip install 'amqproxy[bodies]'") from None


def _compiled(schema: str) -> bytes:
    """Compile a .proto file, which may import those that come with Protobuf, to a serialized `FileDescriptorSet`."""
    grpc_tools = _of_extra("grpc_tools")
    with tempfile.TemporaryDirectory(prefix="amqproxy-proto-") as directory:
        output = Path(directory) / "out"
        (Path(directory) / _PROTO).write_text(schema)
        known = Path(grpc_tools.__file__).parent / "_proto"
        options = ["--include_imports", f"-I{directory}", f"-I{known}", f"-o{output}", _PROTO]
        command = [sys.executable, "-m", "grpc_tools.protoc", *options]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS, check=False)
        except subprocess.TimeoutExpired:
            raise NotInForm("protoc takes too long for the schema") from None
        if done.returncode:
            raise NotInForm(f"the schema is not right: {done.stderr.strip()[:1000]}")
        return output.read_bytes()
