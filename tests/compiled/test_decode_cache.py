"""What was decoded before is known again by its bytes, and by nothing less."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from amqproxy.compiled.decode_cache import SLOTS, DecodeCache


def test_what_came_twice_is_known() -> None:
    cache = DecodeCache()
    values = [object() for _ in range(3)]
    found = []
    for value in values:
        found.append(cache.find(b"orders"))
        if found[-1] is None:
            cache.keep(b"orders", value)
    assert found == [None, None, values[1]]


def test_of_no_bytes_nothing_is_known() -> None:
    assert DecodeCache().find(b"") is None


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=200))
def test_no_value_is_that_of_other_bytes(lookups: list[bytes]) -> None:
    cache = DecodeCache()
    for data in lookups * 2:
        value = cache.find(data)
        if value is None:
            cache.keep(data, (data,))
        else:
            assert value == (data,)


@given(st.binary(min_size=1, max_size=80), st.data())
def test_each_byte_counts(data: bytes, draw: st.DataObject) -> None:
    cache = DecodeCache()
    for _ in range(2):
        cache.find(data)
        cache.keep(data, "value")
    assert cache.find(data) == "value"
    place = draw.draw(st.integers(0, len(data) - 1))
    other = draw.draw(st.integers(0, 255).filter(lambda byte: byte != data[place]))
    assert cache.find(data[:place] + bytes([other]) + data[place + 1 :]) is None
    assert cache.find(data[:-1]) is None
    assert cache.find(data + b"\0") is None


def test_what_comes_once_takes_no_place() -> None:
    cache = DecodeCache()
    for _ in range(2):
        cache.find(b"application/json")
        cache.keep(b"application/json", "application/json")
    for number in range(10 * SLOTS):
        assert cache.find(b"%08x" % number) is None
        cache.keep(b"%08x" % number, number)
    assert cache.find(b"application/json") == "application/json"


def test_what_it_keeps_is_bounded_and_the_newest_is_known() -> None:
    cache = DecodeCache()
    for number in range(10 * SLOTS):
        for _ in range(2):
            cache.find(b"%08x" % number)
            cache.keep(b"%08x" % number, number)
        assert cache.find(b"%08x" % number) == number
    assert sum(cache.find(b"%08x" % number) is not None for number in range(10 * SLOTS)) <= SLOTS


def test_what_was_looked_up_in_between_puts_no_value_to_other_bytes() -> None:
    """As where another thread decodes while this one does."""
    cache = DecodeCache()
    for _ in range(3):
        cache.find(b"one")
        cache.find(b"two")
        cache.keep(b"one", 1)
    assert cache.find(b"one") in (None, 1)
    assert cache.find(b"two") is None
