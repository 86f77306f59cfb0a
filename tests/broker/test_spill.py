"""Messages that memory has no room for."""

from pathlib import Path

from amqproxy.broker.message import Message
from amqproxy.broker.spill import Spill


def bodies(messages: list[Message]) -> list[bytes]:
    return [message.body for message in messages]


def test_what_is_put_is_taken_once(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    first = spill.put([Message("", "q", b"h", body) for body in (b"a", b"b", b"c")])
    second = spill.put([Message("x", "k", b"h", bytes(100_000))])
    assert bodies(spill.take(first[:2])) == [b"a", b"b"]
    assert bodies(spill.take([*first, *second])) == [b"c", bytes(100_000)]
    assert spill.take([*first, *second]) == []
    spill.close()


def test_what_is_dropped_is_gone(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    numbers = spill.put([Message("", "q", b"", b"a"), Message("", "q", b"", b"b")])
    spill.drop(numbers[:1])
    assert bodies(spill.take(numbers)) == [b"b"]
    spill.close()


def test_a_restart_finds_nothing(tmp_path: Path) -> None:
    spill = Spill(tmp_path)
    numbers = spill.put([Message("", "q", b"", b"a")])
    spill.close()
    spill = Spill(tmp_path)
    assert spill.take(numbers) == []
    spill.close()
