"""Messages that memory has no room for."""

import os
from pathlib import Path

import pytest

from amqproxy.broker.message import Message
from amqproxy.broker.storage import page_file
from amqproxy.broker.storage.packing import PackedMessage
from amqproxy.broker.storage.page_file import PageFiles

NEVER = float("inf")


def rows(*bodies: bytes, first: int = 1) -> list[PackedMessage]:
    return [
        PackedMessage(first + place, NEVER if place % 2 else 5.5, place, Message("x", "k", b"h", body))
        for place, body in enumerate(bodies)
    ]


def open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def shown(found: list[PackedMessage]) -> list[tuple[int, float, int, bytes]]:
    return [(each.position, each.expires_at, each.delivery_count, each.message.body) for each in found]


def test_what_is_put_can_be_read_until_it_is_dropped(tmp_path: Path) -> None:
    page_store = PageFiles(tmp_path)
    first = page_store.put(rows(b"a", b"bb"))
    second = page_store.put(rows(bytes(100_000), first=7))
    assert (first.first, first.last, first.messages, first.body_bytes) == (1, 2, 2, 3)
    assert shown(page_store.read(second)) == [(7, 5.5, 0, bytes(100_000))]
    for _ in range(2):
        assert shown(page_store.read(first)) == [(1, 5.5, 0, b"a"), (2, NEVER, 1, b"bb")]
    page_store.drop(first)
    assert shown(page_store.read(second)) == [(7, 5.5, 0, bytes(100_000))]
    page_store.close()


def test_its_files_have_no_names(tmp_path: Path) -> None:
    page_store = PageFiles(tmp_path)
    assert page_store.size == 0
    page_store.put(rows(b"a"))
    assert list(tmp_path.iterdir()) == []
    assert page_store.size > 0
    page_store.close()
    assert page_store.size == 0


def test_a_file_goes_with_its_last_block(tmp_path: Path) -> None:
    page_store = PageFiles(tmp_path, file_size=1000)
    before = open_files()
    blocks = [page_store.put(rows(bytes(600))) for _ in range(10)]
    assert open_files() == before + 5
    for block in blocks[2:]:
        page_store.drop(block)
    assert open_files() == before + 1
    assert len(page_store.read(blocks[0])) == 1
    for block in blocks[:2]:
        page_store.drop(block)
    assert (page_store.size, open_files()) == (0, before)
    again = page_store.put(rows(b"a"))
    page_store.close()
    page_store.drop(again)
    assert open_files() == before


def test_a_full_disk_takes_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page_store = PageFiles(tmp_path)
    block = page_store.put(rows(b"a"))
    taken = page_store.size
    room = [10]

    def pwrite(descriptor: int, data: memoryview, at: int) -> int:
        if not room:
            raise OSError(28, "No space left on device")
        return real(descriptor, data[: room.pop()], at)

    real = os.pwrite
    monkeypatch.setattr(page_file.os, "pwrite", pwrite)
    with pytest.raises(OSError, match="No space"):
        page_store.put(rows(b"b" * 100))
    monkeypatch.undo()
    assert page_store.size == taken
    second = page_store.put(rows(b"c"))
    assert (shown(page_store.read(block))[0][3], shown(page_store.read(second))[0][3]) == (b"a", b"c")
    page_store.close()


def test_a_file_that_was_cut_short(tmp_path: Path) -> None:
    page_store = PageFiles(tmp_path)
    block = page_store.put(rows(b"a"))
    os.truncate(block.file.descriptor, 3)
    with pytest.raises(OSError, match="cut short"):
        page_store.read(block)
    page_store.close()
