"""Maps as tables and back, whatever is in them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amqproxy.amqp010.wire import Entry, Map
from amqproxy.amqp091.wire import Field, Table
from amqproxy.conversion.amqp010.header_tables import lost_in_table, map_of, merged, table_of

KEYS = st.text(max_size=20)
PLAIN: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=50)
    | st.binary(max_size=50)
    | st.uuids()
    | st.decimals(-(10**9), 10**9, places=3)
)
VALUES = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_with_what_is_lost_all_comes_back(headers: dict[str, Any]) -> None:
    original = Map(headers)
    lost = lost_in_table(original)
    back = map_of(table_of(original)) if lost is None else merged(table_of(original), lost)
    assert back == original


@given(st.dictionaries(KEYS, VALUES, max_size=5))
def test_a_table_comes_back_from_a_map(headers: dict[str, Any]) -> None:
    table = table_of(Map(headers))
    assert table_of(map_of(table)) == table


def test_the_nearest_types() -> None:
    table = table_of(
        Map({"u": UUID(int=1), "n": Decimal("-1.5"), "high": Decimal(2**31), "big": 2**63, "l": [1], "m": {"k": b"v"}})
    )
    assert dict(table) == {
        "u": "00000000-0000-0000-0000-000000000001",
        "n": Decimal("-1.5"),
        "high": "2147483648",
        "big": "9223372036854775808",
        "l": [1],
        "m": {"k": b"v"},
    }


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        (Entry("k", "datetime", -7), Field("k", "l", -7)),
        (Entry("k", "datetime", 7), Field("k", "T", 7)),
        (Entry("k", "0xff", None), Field("k", "V", None)),
        (Entry("k", "0x03", b"a"), Field("k", "x", b"a")),
        (Entry("k", "char-utf32", "\ud800"), Field("k", "S", "\udced\udca0\udc80")),
        (Entry("k", "str8-utf16", "a\ud800"), Field("k", "S", "a\udced\udca0\udc80")),
        (Entry("k", "str16-utf16", "\udfff\ud800"), Field("k", "S", "\udced\udcbf\udcbf\udced\udca0\udc80")),
    ],
)
def test_what_0_9_1_cannot_hold_breaks_no_table_and_comes_back(entry: Entry, field: Field) -> None:
    headers = Map([entry])
    assert table_of(headers).fields == (field,)
    lost = lost_in_table(headers)
    assert (map_of(table_of(headers)) if lost is None else merged(table_of(headers), lost)) == headers


def test_a_timestamp_that_0_10_cannot_hold_is_a_number() -> None:
    found = map_of(Table([Field("most", "T", 2**63 - 1), Field("more", "T", 2**63)]))
    assert found.entries == (Entry("most", "datetime", 2**63 - 1), Entry("more", "uint64", 2**63))
