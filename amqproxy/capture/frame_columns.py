"""Frames as rows of columns, in the memory layout of Apache Arrow, written from the bytes of the frames.

No object is created for a frame or a cell. Unusual frames are added by way of their `Record`. The meaning of the
columns is described in `arrow`, which hands them over. This module may be compiled.

A long file, because the rows are written by functions that call each other as C does.
"""

from __future__ import annotations

try:
    import cython
except ImportError:
    from amqproxy.compiled import _cython as cython

from collections.abc import Iterable
from typing import Any

from amqproxy.amqp010 import frame as amqp010
from amqproxy.amqp010.commands import MessageTransfer
from amqproxy.amqp010.frame import Frame as Amqp010Frame
from amqproxy.amqp010.methods import BY_INDEX as AMQP010_METHODS
from amqproxy.amqp091.frame import Frame
from amqproxy.amqp091.methods import BY_INDEX, spec_name
from amqproxy.amqp091.properties import Properties
from amqproxy.capture.amqp010.json_fields import GROWTH as AMQP010_GROWTH
from amqproxy.capture.amqp010.row import ARGUMENT_COLUMNS, PROPERTY_COLUMNS, SETTLEMENTS, row_of
from amqproxy.capture.decoded import Decoded, DecodedFrames, records_of
from amqproxy.capture.frame_writer import HEADER_FIELDS, MAX_PAYLOAD, FrameWriter
from amqproxy.capture.json_lines import GROWTH, JSONLines
from amqproxy.taps.amqp010.record import FLAGS
from amqproxy.taps.amqp010.transfers import JMS_TYPE, MILLISECONDS
from amqproxy.taps.record import TYPES, Record, encoded

if not cython.compiled:
    from amqproxy.capture.amqp010.json_fields import put_map, put_uuid, put_value, value_size_at
    from amqproxy.capture.frame_writer import method_index
    from amqproxy.capture.json_lines import put_table, value_size
    from amqproxy.capture.json_text import character_size
    from amqproxy.compiled.byte_access import long_at, long_long_at, put_digits, signed_long_long_at

MAX_ROWS = 1 << 20
"""Rows of one batch."""
MAX_TEXT_BYTES = 32 * 1024 * 1024
"""Bytes of texts in one batch; the row that exceeds them ends it."""

INT64, INT32, INT8, BOOL, TEXT, BYTES = range(6)
"""The value types of columns; in a dictionary-encoded column, values are numbers of entries."""

KINDS = {
    "ts_ns": INT64,
    "time": INT64,
    "stream": INT64,
    "connection": INT32,
    "leg": INT8,
    "sender": INT8,
    "protocol": INT32,
    "channel": INT32,
    "type": INT8,
    "class": INT8,
    "method": INT32,
    "size": INT64,
    "exchange": TEXT,
    "routing_key": TEXT,
    "queue": TEXT,
    "consumer_tag": TEXT,
    "delivery_tag": INT64,
    "multiple": BOOL,
    "redelivered": BOOL,
    "requeue": BOOL,
    "mandatory": BOOL,
    "reply_code": INT32,
    "reply_text": TEXT,
    "body_size": INT64,
    "content_type": TEXT,
    "content_encoding": TEXT,
    "headers": TEXT,
    "delivery_mode": INT32,
    "priority": INT32,
    "correlation_id": TEXT,
    "reply_to": TEXT,
    "expiration": TEXT,
    "message_id": TEXT,
    "message_timestamp": INT64,
    "message_type": TEXT,
    "user_id": TEXT,
    "app_id": TEXT,
    "cluster_id": TEXT,
    "code": INT32,
    "reason": TEXT,
    "offset": INT64,
    "lost": INT64,
    "verdict": INT32,
    "rules": TEXT,
    "tags": TEXT,
    "command_id": INT64,
    "flags": INT8,
    "arguments": TEXT,
    "body": BYTES,
}
"""The columns, in order; the texts of `rules` and `tags` hold JSON here."""

_DENSE = frozenset(("ts_ns", "time", "stream", "connection", "sender", "protocol", "channel", "type", "size"))
"""The columns with a value in nearly every row."""

_NAMES = list(KINDS)
_WIDTHS = {INT64: 8, INT32: 4, INT8: 1, BOOL: 0, TEXT: 4, BYTES: 4}
_OF_PROPERTIES = {name: column for column, name in PROPERTY_COLUMNS.items()}
_OF_ARGUMENTS = {name: column for name, column in ARGUMENT_COLUMNS.items() if name == column}


def _place(name: str) -> int:
    return _NAMES.index(name)


def _places_of_arguments(index: int) -> bytes:
    """Return the column of each field of a method, or 255."""
    names = [_OF_ARGUMENTS.get(spec_name(field)) for field in BY_INDEX[index].__struct_fields__]
    return bytes([255 if name is None else _place(name) for name in names])


def property_column(name: str) -> str:
    """Return the column of a property."""
    return _OF_PROPERTIES.get(name, name)


SENDERS = ("client", "server")
LEGS = ("client", "upstream")
FRAME_FLAGS = FLAGS
FRAME_TYPES = (*TYPES.values(), "protocol-header", "error", "control", "command")
METHOD_NAMES = tuple(dict.fromkeys([cls.name for cls in BY_INDEX] + [cls.name for cls in AMQP010_METHODS]))
"""The methods of 0-9-1 by index, then those of 0-10 with other names."""
CLASS_NAMES = tuple(dict.fromkeys(name.partition(".")[0] for name in METHOD_NAMES))

_ARGUMENT_PLACES = cython.declare(tuple, tuple(_places_of_arguments(index) for index in range(len(BY_INDEX))))
_CLASS_OF = cython.declare(bytes, bytes([CLASS_NAMES.index(name.partition(".")[0]) for name in METHOD_NAMES]))
_PROPERTY_PLACES = cython.declare(
    bytes, bytes([_place(property_column(name)) for name in Properties.__struct_fields__])
)
_GROWTH = cython.declare(cython.Py_ssize_t, GROWTH)
_AMQP010_GROWTH = cython.declare(cython.Py_ssize_t, AMQP010_GROWTH)
_MAX_PAYLOAD = cython.declare(cython.Py_ssize_t, MAX_PAYLOAD)
_MAX_DEPTH = cython.declare(cython.int, 128)
_HIGH_BITS = cython.declare(cython.ulonglong, 0x8080808080808080)
"""The bits that are clear in eight bytes of ASCII."""
_MOST = 2**63 - 1


def _places_of_0_10(index: int, sender: str) -> bytes:
    """Return the column of each field of a control or command, or 255."""
    cls = AMQP010_METHODS[index]
    names = [ARGUMENT_COLUMNS.get(name) for name, _ in cls.spoken]
    if cls is MessageTransfer and sender == "client":
        names = ["exchange" if name == "consumer_tag" else name for name in names]
    return bytes([255 if name is None else _place(name) for name in names])


_COLUMNS_OF_PROPERTIES = _OF_PROPERTIES | {
    "ttl": "expiration",
    "exchange": "exchange",
    "routing_key": "routing_key",
    "redelivered": "redelivered",
    "content_length": "body_size",
    "application_headers": "headers",
}


def _places_in_header(fields: tuple[str, ...]) -> bytes:
    """Return the column of each 0-10 property, or 255."""
    names = [None if field == "expiration" else _COLUMNS_OF_PROPERTIES.get(field) for field in fields]
    return bytes([255 if name is None else _place(name) for name in names])


_AMQP010_PLACES = cython.declare(
    tuple,
    tuple(
        tuple(_places_of_0_10(index, sender) for index in range(len(AMQP010_METHODS)))
        for sender in ("client", "server")
    ),
)
_AMQP010_CLASS_OF = cython.declare(
    bytes, bytes([CLASS_NAMES.index(cls.name.partition(".")[0]) for cls in AMQP010_METHODS])
)
_AMQP010_METHOD_OF = cython.declare(bytes, bytes([METHOD_NAMES.index(cls.name) for cls in AMQP010_METHODS]))
_AMQP010_SETTLES = cython.declare(bytes, bytes([cls in SETTLEMENTS for cls in AMQP010_METHODS]))
_HEADER_PLACES = cython.declare(bytes, _places_in_header(HEADER_FIELDS))
_JMS_TYPE = cython.declare(bytes, JMS_TYPE.encode())
_MILLISECONDS = cython.declare(cython.longlong, MILLISECONDS)
_TRANSFER = cython.declare(cython.int, MessageTransfer.index)
_OVERHEAD = cython.declare(cython.Py_ssize_t, amqp010.OVERHEAD)
_COMMAND = cython.declare(cython.int, amqp010.COMMAND)
_HEADER = cython.declare(cython.int, amqp010.HEADER)
_CONTROL_TYPE = cython.declare(cython.int, FRAME_TYPES.index("control"))

_TS_NS = cython.declare(cython.int, _place("ts_ns"))
_TIME = cython.declare(cython.int, _place("time"))
_STREAM = cython.declare(cython.int, _place("stream"))
_CONNECTION = cython.declare(cython.int, _place("connection"))
_LEG = cython.declare(cython.int, _place("leg"))
_SENDER = cython.declare(cython.int, _place("sender"))
_PROTOCOL = cython.declare(cython.int, _place("protocol"))
_CHANNEL = cython.declare(cython.int, _place("channel"))
_TYPE = cython.declare(cython.int, _place("type"))
_CLASS = cython.declare(cython.int, _place("class"))
_METHOD = cython.declare(cython.int, _place("method"))
_SIZE = cython.declare(cython.int, _place("size"))
_BODY_SIZE = cython.declare(cython.int, _place("body_size"))
_ARGUMENTS = cython.declare(cython.int, _place("arguments"))
_BODY = cython.declare(cython.int, _place("body"))
_EXCHANGE = cython.declare(cython.int, _place("exchange"))
_DELIVERY_TAG = cython.declare(cython.int, _place("delivery_tag"))
_MULTIPLE = cython.declare(cython.int, _place("multiple"))
_HEADERS = cython.declare(cython.int, _place("headers"))
_EXPIRATION = cython.declare(cython.int, _place("expiration"))
_MESSAGE_TYPE = cython.declare(cython.int, _place("message_type"))
_COMMAND_ID = cython.declare(cython.int, _place("command_id"))
_FLAGS = cython.declare(cython.int, _place("flags"))


@cython.final
@cython.cclass
class Column:
    """One column of a batch: its `kind`, and buffers for a fixed number of rows.

    `valid` has a bit for each row that has a value. The end of each text is in `data`, 4 bytes per row after the first
    4; the texts are in `text`. Values are written in the order of rows; a skipped row has none, unless the column
    `is_dense`: then every row has one, except those that are explicitly left out.
    """

    name: str = cython.declare(str, visibility="readonly")
    kind: int = cython.declare(cython.int, visibility="readonly")
    valid: bytearray = cython.declare(bytearray, visibility="readonly")
    data: bytearray = cython.declare(bytearray, visibility="readonly")
    text: bytearray = cython.declare(bytearray, visibility="readonly")
    count: int = cython.declare(cython.Py_ssize_t, visibility="readonly")
    size: int = cython.declare(cython.Py_ssize_t, visibility="readonly")
    numbers: dict[str, int] = cython.declare(dict, visibility="readonly")
    is_dense: bool = cython.declare(cython.bint, visibility="readonly")
    _rows: cython.Py_ssize_t
    _filled: cython.Py_ssize_t  # rows whose text ends are written
    _p_valid: cython.p_uchar
    _p_data: cython.p_uchar
    _p_text: cython.p_uchar
    _room: cython.Py_ssize_t  # in `text`

    def __init__(self, name: str, kind: int, rows: int) -> None:
        self.name = name
        self.kind = kind
        self.is_dense = name in _DENSE
        self._rows = rows
        self.renew()

    def renew(self) -> None:
        """Begin a batch, in new buffers."""
        self.size = self._filled = 0
        self.count = 0
        self.numbers = {}
        self.valid = bytearray((b"\xff" if self.is_dense else b"\0") * ((self._rows + 7) // 8))
        self.data = bytearray((self._rows + 7) // 8 if self.kind == BOOL else (self._rows + 1) * _WIDTHS[self.kind])
        self.text = bytearray(4096 if self.kind >= TEXT else 0)
        self._p_valid = self.valid
        self._p_data = self.data
        self._p_text = self.text
        self._room = len(self.text)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _mark(self, row: cython.Py_ssize_t) -> cython.int:
        """Mark the row as having a value."""
        self._p_valid[row >> 3] |= 1 << (row & 7)
        self.count += 1
        return 0

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put_64(self, row: cython.Py_ssize_t, number: cython.longlong) -> cython.int:
        _put_8(self._p_data, row * 8, number)
        return self._mark(row)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put_32(self, row: cython.Py_ssize_t, number: cython.longlong) -> cython.int:
        _put_4(self._p_data, row * 4, number)
        return self._mark(row)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put_8_bits(self, row: cython.Py_ssize_t, number: cython.int) -> cython.int:
        self._p_data[row] = number
        return self._mark(row)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _put_bit(self, row: cython.Py_ssize_t, bit: cython.int) -> cython.int:
        self._p_data[row >> 3] |= bit << (row & 7)
        return self._mark(row)

    @cython.cfunc
    @cython.exceptval(check=False)
    def _fill_rows(self, row: cython.Py_ssize_t, end: cython.Py_ssize_t, number: cython.longlong) -> cython.int:
        """Write a number into several rows of a dense column."""
        p: cython.p_uchar = self._p_data
        at: cython.Py_ssize_t
        self.count += end - row
        if self.kind == 0:
            for at in range(row, end):
                _put_8(p, at * 8, number)
        elif self.kind == 1:
            for at in range(row, end):
                _put_4(p, at * 4, number)
        else:
            for at in range(row, end):
                p[at] = number & 0xFF
        return 0

    @cython.cfunc
    @cython.exceptval(check=False)
    def _erase(self, row: cython.Py_ssize_t) -> cython.int:
        """Remove the value of the last row, if it has one; not for a dense column."""
        p: cython.p_uchar = self._p_data
        mark: cython.int = 1 << (row & 7)
        if self.is_dense or not self._p_valid[row >> 3] & mark:
            return 0
        self._p_valid[row >> 3] &= 0xFF ^ mark
        self.count -= 1
        if self.kind == 3:
            p[row >> 3] &= 0xFF ^ mark
        elif self.kind >= 4:
            self.size = p[row * 4] | p[row * 4 + 1] << 8 | p[row * 4 + 2] << 16 | p[row * 4 + 3] << 24
            self._filled = row
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin_text(self, row: cython.Py_ssize_t, room: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Make room for a text, and return its beginning in `text`."""
        text: bytearray = self.text
        if self._room - self.size < room:
            text.extend(bytes(max(room, len(text))))
            self._p_text = text
            self._room = len(text)
        self._fill(row)
        return self.size

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _end_text(self, row: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        self.size = end
        _put_4(self._p_data, (row + 1) * 4, end)
        self._filled = row + 1
        return self._mark(row)

    @cython.cfunc
    @cython.inline
    @cython.exceptval(check=False)
    def _fill(self, row: cython.Py_ssize_t) -> cython.int:
        """Write the text ends of the preceding rows without text: each equals the previous end."""
        at: cython.Py_ssize_t
        if self._filled < row:
            for at in range(self._filled + 1, row + 1):
                _put_4(self._p_data, at * 4, self.size)
            self._filled = row
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_text(
        self, row: cython.Py_ssize_t, p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Write the text at `p[start:end]`."""
        at: cython.Py_ssize_t = self.size
        out: cython.p_uchar
        if self._room - at < end - start:
            self._begin_text(row, end - start)
        self._fill(row)
        out = self._p_text
        if not cython.compiled:
            out[at : at + end - start] = p[start:end]
        else:
            memcpy(out + at, p + start, end - start)  # type: ignore[name-defined, operator]  # noqa: F821 - see the .pxd
        self._end_text(row, at + end - start)
        return 0

    def put(self, row: int, value: Any) -> None:
        """Write a Python value."""
        place: cython.Py_ssize_t = row
        data: bytes
        if self.kind >= 4:
            data = value if isinstance(value, bytes) else value.encode("utf-8", "backslashreplace")
            self._put_text(place, data, 0, len(data))
        elif self.kind == 0:
            self._put_64(place, value)
        elif self.kind == 1:
            self._put_32(place, value)
        elif self.kind == 2:
            self._put_8_bits(place, value)
        else:
            self._put_bit(place, value)

    def leave_out(self, row: int) -> None:
        """Leave the row without a value."""
        if self.is_dense:
            self._p_valid[row >> 3] &= 0xFF ^ (1 << (row & 7))

    def number_of(self, text: str) -> int:
        """Return the number of a text in the batch's dictionary."""
        number = self.numbers.get(text)
        if number is None:
            number = self.numbers[text] = len(self.numbers)
        return number

    def finish(self, rows: int) -> None:
        """Complete the buffers for `rows` rows."""
        if self.kind >= 4 and self.count:
            self._fill(rows)


@cython.final
@cython.cclass
class FrameColumns(FrameWriter):
    """Gathers rows, one per record; whenever there are `rows` of them, `full` is called with the columns.

    The first `body` bytes of each body frame are in a separate column, and with `arguments` all arguments of methods as
    JSON. `full` takes the buffers of the columns that have values.
    """

    row: int = cython.declare(cython.Py_ssize_t, visibility="readonly")
    columns: list[Column] = cython.declare(list, visibility="readonly")
    _channel: Column
    _type: Column
    _size: Column
    _class: Column
    _method: Column
    _rows: cython.Py_ssize_t
    _has_arguments: cython.bint
    _json: JSONLines
    _places: bytes
    _full: object
    _text_bytes: cython.Py_ssize_t
    _most_text_bytes: cython.Py_ssize_t
    # Values shared by the rows of one packet, and the first row without them.
    _first: cython.Py_ssize_t
    _ts_ns: cython.longlong
    _time: cython.longlong
    _stream: cython.longlong
    _leg: cython.int
    _sender: cython.int
    _named: object
    _spoken: object
    # The connection whose number in this batch's dictionary is known.
    _connection_text: object
    _protocol_text: object
    _connection: cython.longlong
    _protocol: cython.longlong

    def __init__(self, full: Any, *, rows: int, body: int = 0, arguments: bool = False) -> None:
        if not 1 <= rows <= MAX_ROWS:
            raise ValueError(f"a batch has 1 to {MAX_ROWS} rows")
        self._rows = rows
        self._full = full
        self._body = body
        self._has_arguments = arguments
        self._json = JSONLines()
        self._places = b""
        self._text_bytes = 0
        self._most_text_bytes = MAX_TEXT_BYTES
        self.row = self._first = 0
        self.columns = [Column(name, kind, rows) for name, kind in KINDS.items()]
        self._channel = self.columns[_CHANNEL]
        self._type = self.columns[_TYPE]
        self._size = self.columns[_SIZE]
        self._class = self.columns[_CLASS]
        self._method = self.columns[_METHOD]
        self._named = self._connection_text = self._spoken = self._protocol_text = None

    def flush(self) -> None:
        """Hand over the current rows."""
        self._put_shared()
        if self.row:
            column: Column
            for column in self.columns:
                column.finish(self.row)
            self._full(self.columns, self.row)  # type: ignore[operator]
            for column in self.columns:
                if column.count or column.is_dense:
                    column.renew()
                column._filled = 0
            self.row = self._first = 0
            self._text_bytes = 0
            self._connection_text = None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _begin(self, passed: DecodedFrames) -> cython.bint:
        if not -_MOST <= passed.ts_ns <= _MOST or passed.stream > _MOST:
            return False
        self._named = passed.connection
        self._spoken = passed.protocol
        self._ts_ns = passed.ts_ns
        self._time = _micros(self._ts_ns)
        self._stream = passed.stream
        leg = passed.leg
        self._leg = LEGS.index(leg) if leg and leg in LEGS else -1
        self._sender = 0 if passed.sender == "client" else 1
        return True

    @cython.cfunc
    def _end(self) -> object:
        self._put_shared()
        return None

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_shared(self) -> cython.int:
        """Write the shared values into the rows that the packet has so far."""
        row: cython.Py_ssize_t = self._first
        end: cython.Py_ssize_t = self.row
        if row < end:
            if self._connection_text is not self._named or self._protocol_text is not self._spoken:
                self._connection = self._column(_CONNECTION).number_of(self._named)  # type: ignore[arg-type]
                self._protocol = self._column(_PROTOCOL).number_of(self._spoken)  # type: ignore[arg-type]
                self._connection_text = self._named
                self._protocol_text = self._spoken
            self._column(_TS_NS)._fill_rows(row, end, self._ts_ns)
            self._column(_TIME)._fill_rows(row, end, self._time)
            self._column(_STREAM)._fill_rows(row, end, self._stream)
            self._column(_CONNECTION)._fill_rows(row, end, self._connection)
            self._column(_SENDER)._fill_rows(row, end, self._sender)
            self._column(_PROTOCOL)._fill_rows(row, end, self._protocol)
            if self._leg >= 0:
                leg: Column = self._column(_LEG)
                at: cython.Py_ssize_t
                for at in range(row, end):
                    leg._put_8_bits(at, self._leg)
            self._first = end
        return 0

    @cython.cfunc
    @cython.inline
    def _column(self, place: cython.int) -> Column:
        return self.columns[place]

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add(self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.Py_ssize_t:
        p: cython.p_const_uchar = data
        payload: cython.Py_ssize_t = end - start - 8
        kind: cython.int = p[start]
        index: cython.int
        text_bytes: cython.Py_ssize_t = self._text_bytes
        if kind == 1:
            index = method_index(p, start)
            self._places = _ARGUMENT_PLACES[index]
            if (
                payload > _MAX_PAYLOAD
                or self._arguments(0, data, start + 11, end - 1, index) < 0
                or (self._has_arguments and not self._add_arguments(data, start, end, index))
            ):
                return self._erase(text_bytes)
            self._class._put_8_bits(self.row, _byte_of(_CLASS_OF, index))
            self._method._put_32(self.row, index)
        elif kind == 2:
            self._places = _PROPERTY_PLACES
            if payload < 14 or payload > _MAX_PAYLOAD or self._properties(0, data, start + 19, end - 1) < 0:
                return self._erase(text_bytes)
            self._put_unsigned(_BODY_SIZE, p, start + 11)
        elif kind == 3:
            self._put_body(p, start + 7, end - 1)
        self._end_row(p[start + 1] << 8 | p[start + 2], kind - 1 if kind <= 3 else 3, payload)
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_body(self, p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Write the first bytes of the body `p[start:end]`."""
        if self._body:
            end = min(end, start + self._body)
            self._column(_BODY)._put_text(self.row, p, start, end)
            self._text_bytes += end - start
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _end_row(self, channel: cython.int, kind: cython.int, size: cython.longlong) -> cython.int:
        """Write the values that all rows have, and go to the next row."""
        column: Column = self._channel
        _put_4(column._p_data, self.row * 4, channel)
        column.count += 1
        column = self._type
        column._p_data[self.row] = kind
        column.count += 1
        column = self._size
        _put_8(column._p_data, self.row * 8, size)
        column.count += 1
        return self._next_row()

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _erase(self, text_bytes: cython.Py_ssize_t) -> cython.Py_ssize_t:
        """Remove the values of the last row, which turned out to be unusual; return 0."""
        column: Column
        for column in self.columns:
            column._erase(self.row)
        self._text_bytes = text_bytes
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _next_row(self) -> cython.int:
        self.row += 1
        if self.row == self._rows or self._text_bytes > self._most_text_bytes:
            self.flush()
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_unsigned(self, place: cython.int, p: cython.p_const_uchar, at: cython.Py_ssize_t) -> cython.int:
        """Write an eight-byte number if it fits into a signed one."""
        if p[at] < 0x80:
            self._column(place)._put_64(self.row, long_long_at(p, at))
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_arguments(
        self, data: bytes, start: cython.Py_ssize_t, end: cython.Py_ssize_t, index: cython.int
    ) -> cython.int:
        json: JSONLines = self._json
        json._at = 0
        return self._put_arguments() if json._add_object(data, start, end, index) else 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_arguments(self) -> cython.int:
        """Write the object that was made into the arguments column; return 1."""
        json: JSONLines = self._json
        self._column(_ARGUMENTS)._put_text(self.row, json._out, 0, json._at)  # type: ignore[arg-type]
        self._text_bytes += json._at
        return 1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _field(
        self,
        at: cython.Py_ssize_t,
        field: cython.Py_ssize_t,
        code: cython.int,
        data: bytes,
        position: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write a field that has a column; return -1 if it is unusual."""
        p: cython.p_const_uchar = data
        row: cython.Py_ssize_t = self.row
        place: cython.int = _byte_of(self._places, field)
        column: Column
        if code == 115 or code == 117:  # s u
            if not _is_text(p, position + 1, position + size):
                return -1
            if place != 255:
                self._column(place)._put_text(row, p, position + 1, position + size)
                self._text_bytes += size
        elif code == 70:  # F
            if place == 255:
                return at if _is_table(p, position + 4, position + size, True, 0) else -1
            column = self._column(place)
            at = column._begin_text(row, 64 + size * _GROWTH)
            at = put_table(column.text, at, data, position + 4, position + size, 0, True)
            if at < 0:
                return -1
            self._text_bytes += at - column.size
            column._end_text(row, at)
        elif place != 255:
            if code == 98:  # b
                self._column(place)._put_bit(row, size)
            elif code == 113:  # q
                self._put_unsigned(place, p, position)
            elif code == 104:  # h
                self._column(place)._put_32(row, p[position] << 8 | p[position + 1])
            elif code == 111:  # o
                self._column(place)._put_32(row, p[position])
        return at

    # --- AMQP 0-10

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _add_amqp010(self, frame: Amqp010Frame, command: object) -> cython.Py_ssize_t:
        data: bytes = frame._buffer
        p: cython.p_const_uchar = data
        start: cython.Py_ssize_t = frame._start + _OVERHEAD
        end: cython.Py_ssize_t = frame._end
        kind: cython.int = frame.kind
        row: cython.Py_ssize_t = self.row
        text_bytes: cython.Py_ssize_t = self._text_bytes
        command_id: cython.longlong = -1
        if command is not None:
            command_id = command  # type: ignore[assignment]
        if kind > _HEADER:
            if frame.lost:
                return 0
            self._put_body(p, start, end)
        elif frame.flags & 3 != 3 or end - start > _MAX_PAYLOAD or (kind <= _COMMAND and frame.index < 0):
            return 0
        elif kind <= _COMMAND:
            if not self._method_of_0_10(data, start, end, kind, frame.index, command_id):
                return self._erase(text_bytes)
            self._class._put_8_bits(row, _byte_of(_AMQP010_CLASS_OF, frame.index))
            self._method._put_32(row, _byte_of(_AMQP010_METHOD_OF, frame.index))
        else:
            self._places = _HEADER_PLACES
            if self._packed_properties(0, data, start, end) < 0:
                return self._erase(text_bytes)
        if command_id >= 0:
            self._column(_COMMAND_ID)._put_64(row, command_id)
        self._column(_FLAGS)._put_8_bits(row, frame.flags)
        self._end_row(frame.channel, _CONTROL_TYPE + kind if kind <= _COMMAND else kind - 1, end - start)
        return 1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _method_of_0_10(
        self,
        data: bytes,
        start: cython.Py_ssize_t,
        end: cython.Py_ssize_t,
        kind: cython.int,
        index: cython.int,
        command_id: cython.longlong,
    ) -> cython.int:
        """Write the arguments; return 1, or 0 if the control or command is unusual."""
        p: cython.p_const_uchar = data
        row: cython.Py_ssize_t = self.row
        size: cython.Py_ssize_t
        json: JSONLines = self._json
        self._places = _AMQP010_PLACES[self._sender][index]
        if self._packed_arguments(0, data, start, end, kind, index) < 0:
            return 0
        if self._has_arguments:
            json._at = 0
            if not json._add_packed_object(data, start, end, kind, index):
                return 0
            self._put_arguments()
        start += 4 if kind == _COMMAND else 2
        if index == _TRANSFER:
            if self._sender:
                if command_id >= 0:
                    self._column(_DELIVERY_TAG)._put_64(row, command_id)
            elif not p[start] & 1:
                self._column(_EXCHANGE)._put_text(row, p, start, start)  # the default one
        elif _byte_of(_AMQP010_SETTLES, index) and p[start] & 1:
            size = p[start + 2] << 8 | p[start + 3]
            start += 4
            if size:
                self._column(_DELIVERY_TAG)._put_64(row, long_at(p, start + size - 4))
                self._column(_MULTIPLE)._put_bit(row, size > 8 or long_at(p, start) != long_at(p, start + 4))
        return 1

    @cython.cfunc
    @cython.exceptval(-2, check=False)
    def _packed_field(
        self,
        at: cython.Py_ssize_t,
        field: cython.Py_ssize_t,
        code: cython.int,
        data: bytes,
        position: cython.Py_ssize_t,
        size: cython.Py_ssize_t,
    ) -> cython.Py_ssize_t:
        """Write a field that has a column; return -1 if it is unusual."""
        p: cython.p_const_uchar = data
        row: cython.Py_ssize_t = self.row
        end: cython.Py_ssize_t = position + size
        place: cython.int = _byte_of(self._places, field)
        column: Column
        number: cython.longlong
        if code == 0xF1:  # bit
            if place != 255 and (self._places is not _HEADER_PLACES or self._sender):
                self._column(place)._put_bit(row, size)
            return at
        if code == 0x85 or code == 0x95 or code == 0x90:  # str8, str16, vbin16
            position += 1 if code == 0x85 else 2
            if not _is_text(p, position, end):
                return -1
            if place != 255:
                self._column(place)._put_text(row, p, position, end)
                self._text_bytes += size
        elif code == 0xA8 and place != 255:  # map
            column = self._column(place)
            text: cython.Py_ssize_t = column._begin_text(row, 64 + size * _AMQP010_GROWTH)
            text = put_map(column.text, text, data, position + 4, end, 1, True)
            if text < 0:
                return -1
            self._text_bytes += text - column.size
            column._end_text(row, text)
            self._put_jms_type(p, position + 4, end)
        elif code == 0xE3 or (place == 255 and code != 42):  # reply-to
            if not self._is_usual(data, position, size, code):
                return -1
            if place != 255:
                self._put_reply_key(place, p, position, end)
        elif code == 0x02:  # uint8
            self._column(place)._put_32(row, p[position])
        elif code == 0x12:  # uint16
            self._column(place)._put_32(row, p[position] << 8 | p[position + 1])
        elif code == 0x38:  # datetime
            number = signed_long_long_at(p, position)
            self._column(place)._put_64(row, number // 1000 if number >= _MILLISECONDS else number)
        elif code == 0x32:  # uint64
            if place == _EXPIRATION:
                column = self._column(place)
                text = column._begin_text(row, 20)
                column._end_text(row, put_digits(column.text, text, long_long_at(p, position)))
            else:
                self._put_unsigned(place, p, position)
        elif code == 0x48:  # uuid
            column = self._column(place)
            text = column._begin_text(row, 36)
            column._end_text(row, put_uuid(column.text, text, p, position))
            self._text_bytes += 36
        return at

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _is_usual(
        self, data: bytes, position: cython.Py_ssize_t, size: cython.Py_ssize_t, code: cython.int
    ) -> cython.int:
        """Whether a value without a column is valid, and of a common type: whether it can be written as JSON."""
        json: JSONLines = self._json
        json._at = 0
        json._reserve(64 + size * _AMQP010_GROWTH)
        return put_value(json._out, 0, data, position, size, code, 1) >= 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_reply_key(
        self, place: cython.int, p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t
    ) -> cython.int:
        """Write the routing key of a reply-to: after its size, its packing flags, and the exchange."""
        present: cython.int = p[position + 2]
        position += 4
        if present & 1:
            position += 1 + p[position]
        if present & 2:
            position += 1
        self._column(place)._put_text(self.row, p, position, end)
        self._text_bytes += end - position + 1
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def _put_jms_type(self, p: cython.p_const_uchar, position: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.int:
        """Write the message type that Qpid's clients keep in a map, which is known to be valid, if that is a text."""
        name: cython.p_const_uchar = _JMS_TYPE
        length: cython.Py_ssize_t = len(_JMS_TYPE)
        index: cython.Py_ssize_t
        code: cython.int
        is_it: cython.bint
        position += 4  # of the count
        while position < end:
            is_it = p[position] == length
            if is_it:
                for index in range(length):
                    if p[position + 1 + index] != name[index]:
                        is_it = False
                        break
            position += 1 + p[position]
            code = p[position]
            size: cython.longlong = value_size_at(p, position + 1, end, code)
            if is_it and (code == 0x85 or code == 0x95 or code == 0x84 or code == 0x94 or code == 0x04):
                index = 0 if code == 0x04 else 1 if code < 0x90 else 2
                self._column(_MESSAGE_TYPE)._put_text(self.row, p, position + 1 + index, position + 1 + size)
                self._text_bytes += size
            position += 1 + size
        return 0

    # --- by way of records

    @cython.cfunc
    def _add_records(self, passed: Decoded) -> Any:
        self._put_shared()
        count = 0
        frames: Iterable[Frame | Amqp010Frame | None] = passed.frames if isinstance(passed, DecodedFrames) else [None]
        for record, frame in zip(records_of(passed), frames, strict=False):
            self._add_record(record, passed.leg, frame)
            self._first = self.row + 1
            self._next_row()
            count += 1
        return count

    def _add_record(self, record: Record, leg: str, frame: Frame | Amqp010Frame | None) -> None:
        values: dict[str, Any] = {
            "stream": record.stream,
            "channel": record.channel,
            "size": record.size,
            "code": record.code,
            "reason": record.reason,
            "offset": record.offset,
            "lost": record.lost,
            "sender": SENDERS.index(record.sender),
            "leg": LEGS.index(leg) if leg in LEGS else None,
            "type": FRAME_TYPES.index(record.type),
            "connection": self.columns[_CONNECTION].number_of(record.connection),
            "protocol": self.columns[_PROTOCOL].number_of(record.protocol),
        }
        if -_MOST <= record.ts_ns <= _MOST:
            values |= {"ts_ns": record.ts_ns, "time": _micros(record.ts_ns)}
        if record.method is not None:
            values["class"] = CLASS_NAMES.index(record.method.partition(".")[0])
            values["method"] = METHOD_NAMES.index(record.method)
            if self._has_arguments and record.arguments is not None:
                values["arguments"] = encoded(record.arguments)
        if isinstance(frame, Amqp010Frame):
            values |= {"command_id": record.command_id, "flags": frame.flags}
            values |= row_of(frame, record.sender, record.command_id)
        elif record.method is not None:
            values |= {name: value for name, value in (record.arguments or {}).items() if name in _OF_ARGUMENTS}
        elif record.properties is not None:
            values["body_size"] = (record.arguments or {})["body_size"]
            values |= {property_column(name): value for name, value in record.properties.items()}
            if "headers" in values:
                values["headers"] = encoded(values["headers"])
        if record.verdict is not None:
            values["verdict"] = self.columns[_NAMES.index("verdict")].number_of(record.verdict)
        for name, several in (("rules", record.rules), ("tags", record.tags)):
            values[name] = None if several is None else encoded(several)
        if self._body and record.type == "body" and frame is not None:
            values["body"] = frame.known_payload[: self._body]
        column: Column
        for column in self.columns:
            value = values.get(column.name)
            if isinstance(value, dict):  # a text that is not UTF-8
                value = _unpacked(value)
            if value is None or (isinstance(value, int) and not -_MOST <= value <= _MOST):
                column.leave_out(self.row)
                continue
            column.put(self.row, value)
            if isinstance(value, str | bytes):
                self._text_bytes += len(value)


def _unpacked(value: dict[str, str]) -> str:
    """Return the text of base64 bytes in JSON, escaping those that are not UTF-8."""
    from base64 import b64decode

    return b64decode(value["base64"]).decode("utf-8", "backslashreplace")


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _micros(ts_ns: cython.longlong) -> cython.longlong:
    """Return whole microseconds, rounded down."""
    micros: cython.longlong = ts_ns // 1000
    return micros - 1 if micros * 1000 > ts_ns else micros


# --- bytes


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _byte_of(table: bytes, index: cython.int) -> cython.int:
    p: cython.p_const_uchar = table
    return p[index]


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_4(out: cython.p_uchar, at: cython.Py_ssize_t, number: cython.longlong) -> cython.int:
    """Write a number in Arrow's byte order, little-endian."""
    out[at] = number & 0xFF
    out[at + 1] = number >> 8 & 0xFF
    out[at + 2] = number >> 16 & 0xFF
    out[at + 3] = number >> 24 & 0xFF
    return 0


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def _put_8(out: cython.p_uchar, at: cython.Py_ssize_t, number: cython.longlong) -> cython.int:
    _put_4(out, at, number)
    _put_4(out, at + 4, number >> 32)
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def _is_table(
    p: cython.p_const_uchar,
    position: cython.Py_ssize_t,
    end: cython.Py_ssize_t,
    are_named: cython.bint,
    depth: cython.int,
) -> cython.bint:
    """Whether the entries of a table or an array are complete, as `wire.check_table` requires."""
    kind: cython.int
    size: cython.longlong
    if depth > _MAX_DEPTH:
        return False
    while position < end:
        if are_named:
            position += 1 + p[position]
            if position >= end:
                return False
        kind = p[position]
        size = value_size(p, position, end)
        position += 1
        if size < 0:
            return False
        if (kind == 70 or kind == 65) and not _is_table(p, position + 4, position + size, kind == 70, depth + 1):
            return False
        position += size
    return True


@cython.cfunc
@cython.exceptval(check=False)
def _is_text(p: cython.p_const_uchar, start: cython.Py_ssize_t, end: cython.Py_ssize_t) -> cython.bint:
    """Whether the bytes are UTF-8, as Python decodes it."""
    size: cython.Py_ssize_t
    while end - start >= 8 and long_long_at(p, start) & _HIGH_BITS == 0:
        start += 8
    while start < end:
        size = 1 if p[start] < 0x80 else character_size(p, start, end)
        if size == 0:
            return False
        start += size
    return True
