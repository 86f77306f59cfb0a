"""Bytes as the plain run reads and writes them; the compiled form is a part of its callers, and tested with them."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from amqproxy.compiled import byte_access


@pytest.fixture(scope="module")
def plain() -> ModuleType:
    assert byte_access.__file__ is not None
    source = Path(byte_access.__file__).with_name("byte_access.py")
    spec = importlib.util.spec_from_file_location("plain_byte_access", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numbers(plain: ModuleType) -> None:
    data = b"-" + bytes([0x80, 0, 0, 1, 0, 0, 0, 2])
    assert plain.short_at(data, 1) == 0x8000
    assert plain.long_at(data, 1) == 0x8000_0001
    assert plain.long_long_at(data, 1) == 0x8000_0001_0000_0002
    assert plain.signed_long_long_at(data, 1) == 0x8000_0001_0000_0002 - (1 << 64)


def test_bytes_that_are_alike(plain: ModuleType) -> None:
    assert plain.are_alike(b"-abcab", 1, 4, 2)
    assert not plain.are_alike(b"-abcabd", 1, 4, 3)
    assert plain.are_alike(b"ab", 0, 1, 0)


def test_bytes_at_a_place(plain: ModuleType) -> None:
    assert plain.is_at(b"-abc", 1, 2, b"ab")
    assert not plain.is_at(b"-abc", 1, 3, b"ab")
    assert not plain.is_at(b"-abc", 1, 2, b"bc")


@pytest.mark.parametrize(
    ("letter", "data", "size"),
    [
        ("o", b"\1", 1),
        ("h", b"\1\1", 2),
        ("l", bytes(4), 4),
        ("q", bytes(8), 8),
        ("s", b"\2ab", 3),
        ("u", b"\0", 1),
        ("S", b"\0\0\0\1a", 5),
        ("F", b"\0\0\0\0", 4),
    ],
)
def test_fields_end_where_their_bytes_do(plain: ModuleType, letter: str, data: bytes, size: int) -> None:
    assert plain.field_size_at(b"--" + data + b"more", 2, len(data) + 6, ord(letter)) == size
    assert plain.field_size_at(b"--" + data, 2, len(data) + 2, ord(letter)) == size
    for end in range(len(data)):
        assert plain.field_size_at(b"--" + data, 2, end + 2, ord(letter)) == -1


def test_what_is_written(plain: ModuleType) -> None:
    out = bytearray(40)
    at = plain.put_bytes(out, 2, b"ab")
    at = plain.put_digits(out, at, 0)
    at = plain.put_digits(out, at, (1 << 64) - 1)
    at = plain.put_signed(out, at, -12)
    assert plain.put_number(out, at, 0x4142, 3) == at + 3
    assert out.strip(b"\0") == b"ab018446744073709551615-12\0AB"
