"""Types of the fields of controls, commands and structs, as annotations (sections 5.3 and 7).

The first word of each is the specification's type, `Required` marks mandatory fields, and an enumeration after a type
names its values: `Required[Annotated[Uint8, AcceptMode]]`. A missing field is `None`, a missing bit `False`. Peers also
leave out mandatory fields (qpid-python sends `tune-ok` with a heartbeat alone), so that this is not a decoding error:
`absent` of a `Method` or a `Struct` names them.
"""

from __future__ import annotations

from typing import Annotated, Any, TypeVar
from uuid import UUID

from amqproxy.amqp010.sequence import ByteRanges as _ByteRanges
from amqproxy.amqp010.sequence import SequenceSet as _SequenceSet
from amqproxy.amqp010.wire import Array as _Array
from amqproxy.amqp010.wire import Map as _Map

T = TypeVar("T")

REQUIRED = "required"
Required = Annotated[T | None, REQUIRED]

Bit = Annotated[bool, "bit"]
Uint8 = Annotated[int, "uint8"]
Uint16 = Annotated[int, "uint16"]
Uint32 = Annotated[int, "uint32"]
Uint64 = Annotated[int, "uint64"]
Datetime = Annotated[int, "datetime"]
"""Seconds since 1970 in the specification; Qpid's Java peers send milliseconds."""
SequenceNo = Annotated[int, "sequence-no"]
Uuid = Annotated[UUID, "uuid"]
Vbin8 = Annotated[bytes, "vbin8"]
Vbin16 = Annotated[bytes, "vbin16"]
Vbin32 = Annotated[bytes, "vbin32"]
Str8 = Annotated[str, "str8"]
Str16 = Annotated[str, "str16"]
ByteRanges = Annotated[_ByteRanges, "byte-ranges"]
SequenceSet = Annotated[_SequenceSet, "sequence-set"]
Map = Annotated[_Map, "map"]
Array = Annotated[_Array, "array"]
Struct32 = Annotated[Any, "struct32"]
