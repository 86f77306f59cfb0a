"""Queries that are translated once, and not again by the next process."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("sqlglot")

from amqproxy.pipeline.duck import dialect, translations
from amqproxy.pipeline.duck.translations import Translations

pytestmark = pytest.mark.once


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queries that were translated."""
    found: list[str] = []
    original = dialect.duckdb_text

    def counted(text: str) -> str:
        found.append(text)
        return original(text)

    monkeypatch.setattr(dialect, "duckdb_text", counted)
    return found


def test_the_next_process_translates_nothing_again(tmp_path: Path, asked: list[str]) -> None:
    path = tmp_path / "cache" / "queries.json"
    first = Translations(path)
    text = (
        "SELECT count_if(a > 1700000000000000001L) AS b, 7 AS c, t1700000000000 FROM rows WHERE a < 1800000000000000002"
    )
    found = first.of(text)
    assert "COUNT(*) FILTER(WHERE a > 1700000000000000001)" in found
    assert found.endswith("7 AS c, t1700000000000 FROM rows WHERE a < 1800000000000000002")
    first.keep()
    second = Translations(path)
    assert second.of(text) == found
    assert second.of(text.replace("1800000000000000002", "1900000000000000003")) == found.replace(
        "1800000000000000002", "1900000000000000003"
    ), "whatever the times in it"
    assert len(asked) == 1


def test_a_damaged_file_or_none_at_all_is_no_loss(tmp_path: Path, asked: list[str]) -> None:
    path = tmp_path / "queries.json"
    path.write_text('{"SELECT 1": ')
    Translations(path)
    path.write_text('{"digest": "0123", "queries": {"SELECT 1": "SELECT 7"}}')
    some = Translations(path)
    assert some.of("SELECT 1") == "SELECT 1"
    some.keep()
    assert Translations(path).of("SELECT 1") == "SELECT 1"
    nowhere = Translations(Path("/proc/none/queries.json"))
    assert nowhere.of("SELECT 2") == "SELECT 2"
    nowhere.keep()
    assert asked == ["SELECT 1", "SELECT 2"]


def test_a_query_that_was_altered_is_translated_again(tmp_path: Path, asked: list[str]) -> None:
    path = tmp_path / "queries.json"
    first = Translations(path)
    first.of("SELECT sum(a) FROM rows")
    first.keep()
    path.write_bytes(path.read_bytes().replace(b"SUM(a)", b"SUM(b)"))
    assert "SUM(a)" in Translations(path).of("SELECT sum(a) FROM rows")
    assert len(asked) == 2


def test_those_of_this_process_are_kept_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translations, "MOST", 2)
    path = tmp_path / "queries.json"
    for texts in (["SELECT 1", "SELECT 2"], ["SELECT 3", "SELECT 2"]):
        some = Translations(path)
        for text in texts:
            some.of(text)
        some.keep()
    assert set(Translations(path)._kept) == {"SELECT 2", "SELECT 3"}


def test_who_has_no_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", classmethod(lambda cls: (_ for _ in ()).throw(RuntimeError("no home"))))
    found = Translations()
    assert found.of("SELECT 3") == "SELECT 3"
    found.keep()
