"""Record of one frame: the JSON contract that other tools build on.

Secrets never leave here: those in start-ok, secure-ok and update-secret are masked.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from amqproxy.amqp091.errors import ProtocolError
from amqproxy.amqp091.frame import BODY, HEADER, HEARTBEAT, METHOD, Frame
from amqproxy.amqp091.methods import Method
from amqproxy.amqp091.properties import ContentHeader
from amqproxy.amqp091.protocol_header import NAME, recognise
from amqproxy.amqp091.wire import Array, Table
from amqproxy.taps.note import NOTHING, Note
from amqproxy.taps.protocol_error import AnyProtocolError

MASK = "<masked>"
TYPES = {METHOD: "method", HEADER: "header", BODY: "body", HEARTBEAT: "heartbeat"}


class Record(msgspec.Struct, rename={"sender": "from"}, omit_defaults=True, kw_only=True):
    """A frame, a protocol header, or an error, with where and when it passed.

    `ts_ns` is in nanoseconds since 1970; `stream` numbers the connection within the file or the run; `connection` names
    both ends, the client's first; `size` is bytes of payload, of which `body` is the beginning, where that is asked
    for. An error has the reply `code` it calls for, the `reason`, the `offset` in its direction's bytes, and how many
    bytes were `lost`; so has a body of which so many bytes, at its end, were not captured. A segment has the
    `command_id` of its command, where that is known, and its `flags`: B and E in the first and the last segment, b and
    e if it is the first and the last frame of it. Of a command that rules acted on: the `rules`, the `tags` that they
    gave it, and the `verdict`, what became of it. If it was not sent on as received, there is a record for each leg,
    named in `leg`: "client" or "upstream". `comments` are those that users gave the packet. What does not apply is
    None, and absent from JSON.
    """

    ts_ns: int
    stream: int
    connection: str
    sender: str
    protocol: str = ""
    channel: int | None = None
    type: str
    method: str | None = None
    arguments: dict[str, Any] | None = None
    properties: dict[str, Any] | None = None
    size: int | None = None
    body: Any = None
    code: int | None = None
    reason: str | None = None
    offset: int | None = None
    lost: int | None = None
    rules: tuple[str, ...] | None = None
    tags: tuple[str, ...] | None = None
    verdict: str | None = None
    leg: str | None = None
    command_id: int | None = None
    flags: str | None = None
    comments: tuple[str, ...] | None = None

    def to_json(self) -> bytes:
        """Return one line of JSON, without a newline."""
        return encoded(self)


_encoder = msgspec.json.Encoder()


def encoded(value: Any) -> bytes:
    """Return a value as JSON. In a peer's text that is not valid UTF-8, the invalid bytes are escaped."""
    try:
        return _encoder.encode(value)
    except UnicodeEncodeError:
        return _encoder.encode(_escaped(msgspec.to_builtins(value)))


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(name): _escaped(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(each) for each in value]
    return value


def record_frame(
    frame: Frame, *, ts_ns: int, stream: int, connection: str, sender: str, note: Note = NOTHING, body: int = 0
) -> Record:
    """Return the record of a 0-9-1 frame; its type is "error" if the payload is malformed.

    It contains the first `body` bytes of a body frame.
    """
    record = Record(
        ts_ns=ts_ns,
        stream=stream,
        connection=connection,
        sender=sender,
        protocol=NAME,
        channel=frame.channel,
        type=TYPES[frame.kind],
        size=frame.size,
    )
    if note is not NOTHING:
        record.rules, record.tags = note.rules or None, note.tags or None
        record.verdict, record.leg = note.verdict or None, note.leg or None
        record.comments = note.comments or None
    try:
        if record.type == "method":
            method: Method = frame.method
            record.method = method.name
            record.arguments = arguments(method)
        elif record.type == "header":
            header: ContentHeader = frame.header
            record.properties = json_mapping(header.properties.present())
            record.arguments = {"body_size": header.body_size}
        elif record.type == "body":
            if frame.lost:
                record.lost = frame.lost
            if body:
                record.body = excerpt(frame.known_payload, body, frame.size)
    except ProtocolError as error:
        record.type = "error"
        record.code, record.reason, record.offset = error.code, error.reply_text, error.offset
        record.lost = frame.size
    return record


def excerpt(payload: bytes, most: int, size: int | None = None) -> Any:
    """Return the first bytes of a payload: as text if they are printable UTF-8, else as `{"base64": "…"}`.

    `size` is the size of the whole payload, if only its beginning is given.
    """
    start = payload[:most]
    try:
        text = start.decode()
    except UnicodeDecodeError as error:
        is_whole = len(start) == (len(payload) if size is None else size)
        if is_whole or error.reason != "unexpected end of data" or not error.start:
            return _base64(start)
        text = start[: error.start].decode()  # the excerpt cuts the last character
    if text.isprintable() or all(each.isprintable() or each in "\t\n\r" for each in text):
        return text
    return _base64(start)


def record_protocol_header(data: bytes, *, ts_ns: int, stream: int, connection: str, sender: str) -> Record:
    """Return the record of the first bytes of a direction, of any protocol."""
    return Record(
        ts_ns=ts_ns,
        stream=stream,
        connection=connection,
        sender=sender,
        protocol=recognise(data) or "unknown",
        type="protocol-header",
        size=len(data),
    )


def record_error(
    error: AnyProtocolError, *, ts_ns: int, stream: int, connection: str, sender: str, lost: int = 0
) -> Record:
    """Return the record of a peer's protocol violation, or of unreadable bytes."""
    return Record(
        ts_ns=ts_ns,
        stream=stream,
        connection=connection,
        sender=sender,
        protocol=error.protocol,
        channel=error.channel,
        type="error",
        code=int(error.code),
        reason=error.reply_text,
        offset=error.offset,
        lost=lost,
    )


def arguments(method: Method) -> dict[str, Any]:
    """Return a method's fields in JSON form, with secrets masked."""
    found = {name: json_value(value) for name, value in method.to_dict().items()}
    if method.secret:
        found[method.secret] = MASK
    return found


def json_value(value: Any) -> Any:
    """Return the JSON form of a value of a method or table.

    Bytes that are not text become `{"base64": "…"}`; decimals become strings, timestamps seconds, and numbers without a
    JSON form "NaN", "Infinity" and "-Infinity". Names that a table has several times are as in `json_entries`.
    """
    kind = type(value)
    if kind is str:
        return value if value.isascii() or _is_text(value) else _base64(_bytes_of(value))
    if kind is float:
        return value if math.isfinite(value) else _NOT_FINITE.get(value, "NaN")
    if kind is bytes:
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return _base64(value)
    if kind is Table:
        return json_entries((name, json_value(each)) for name, _, each in value.fields)
    if kind is Array:
        return [json_value(item.value) for item in value.items]
    return value


def json_mapping(mapping: Mapping[str, Any]) -> dict[str, Any]:
    """Return the JSON form of names and their values."""
    return {_json_name(name): json_value(value) for name, value in mapping.items()}


def json_entries(entries: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return the entries of a table as an object; the values of a repeated name become `{"repeated": […]}`.

    So does a single value that is such an object itself. `entries` are names with their values in JSON form.
    """
    found: dict[str, list[Any]] = {}
    for name, value in entries:
        found.setdefault(_json_name(name), []).append(value)
    return {
        name: {"repeated": each} if len(each) > 1 or _is_repeated(each[0]) else each[0] for name, each in found.items()
    }


def _is_repeated(value: Any) -> bool:
    return isinstance(value, dict) and value.keys() == {"repeated"} and isinstance(value["repeated"], list)


def _json_name(name: str) -> str:
    return name if _is_text(name) else name.encode("utf-8", "backslashreplace").decode()


def _is_text(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _bytes_of(text: str) -> bytes:
    """Return the original bytes of a text that is not valid UTF-8; half a surrogate pair is encoded as UTF-8 would."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


_NOT_FINITE = {math.inf: "Infinity", -math.inf: "-Infinity"}


def _base64(data: bytes) -> dict[str, str]:
    return {"base64": base64.b64encode(data).decode()}
