"""What is committed, and what is not, however a driver ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from amqproxy.pipeline.ledger import PRIVATE, Ledger, committed_files, contents, ledger
from amqproxy.pipeline.ledger.files import TableFiles
from amqproxy.pipeline.ledger.manifests import MANIFEST

pytestmark = pytest.mark.once

HOUR = "date=2026-11-23/hour=7"


class PowerCut(BaseException):
    """Nothing that comes after it is done."""


def stage(held: Ledger, table: str, rows: str, hour: str = HOUR) -> None:
    """What Spark would write: the text stands for rows."""
    file = Path(held.path, held.staging(table), hour, "part-00000.parquet")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(rows)


def carry(held: Ledger, name: str, rows: str) -> None:
    file = Path(held.path, held.carry(name), "part-00000.parquet")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(rows)


def rows(path: Path, table: str) -> list[str]:
    return sorted((path / file).read_text() for file in committed_files(str(path), table))


def on_disk(path: Path) -> list[str]:
    """What a notebook finds that knows nothing of commits."""
    files = path.rglob("*.parquet")
    return sorted(file.read_text() for file in files if PRIVATE not in file.relative_to(path).parts)


def listed(path: Path, table: str) -> list[str]:
    """Return the texts of the files in the table's manifest."""
    manifest = path / table / MANIFEST
    return sorted(Path(each).read_text() for each in manifest.read_text().splitlines()) if manifest.exists() else []


def job(path: Path, captures: Path) -> None:
    """A driver: ingests what is new, a capture a batch; then puts all hours into one file each. Can be run again."""
    with Ledger(str(path)) as held:
        for capture in held.find(sorted(map(str, captures.glob("*.pcapng")))).new:
            before = held.carried("ingest", "open")
            so_far = Path(path, before, "part-00000.parquet").read_text() if before else ""
            text = Path(capture).read_text()
            stage(held, "messages", text)
            stage(held, "errors", f"no {text}")
            carry(held, "open", so_far + text)
            held.commit("ingest", ["messages", "errors"], captures=[capture], carried=["open"], through=held.next_batch)
        files = held.contents.files.get("messages", [])
        if len(files) > 1:
            stage(held, "messages", "+".join(sorted(Path(path, file).read_text() for file in files)))
            held.commit("compact", ["messages"], removed=files)


@pytest.fixture
def captures(tmp_path: Path) -> Path:
    directory = tmp_path / "captures"
    directory.mkdir()
    for name in "abc":
        (directory / f"{name}.pcapng").write_text(name)
    return directory


def result(path: Path) -> object:
    held = contents(str(path))
    carried = Path(path, held.carried["ingest"]["open"], "part-00000.parquet").read_text()
    return rows(path, "messages"), rows(path, "errors"), on_disk(path), carried, held.through, sorted(held.captures)


@pytest.fixture
def writes(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], list[str]]:
    """From now on, cut the power at the write of that number; returns those that were done."""
    done: list[str] = []
    limit = [1 << 30]

    def counted(name: str) -> None:
        original = getattr(TableFiles, name)

        def wrapped(self: object, path: str, *rest: object) -> object:
            if len(done) >= limit[0]:
                raise PowerCut
            done.append(f"{name} {path}")
            if len(done) == limit[0] and name == "write":  # the next worst: half of it
                Path(f"{self._place.path}/{path}.tmp").parent.mkdir(parents=True, exist_ok=True)  # type: ignore[attr-defined]
                Path(f"{self._place.path}/{path}.tmp").write_bytes(rest[0][:9])  # type: ignore[attr-defined,index]
                raise PowerCut
            return original(self, path, *rest)

        monkeypatch.setattr(TableFiles, name, wrapped)

    for name in ("write", "move", "delete", "delete_directory"):
        counted(name)

    def cut_at(number: int) -> list[str]:
        done.clear()
        limit[0] = number
        return done

    return cut_at


def test_whichever_write_is_the_last_the_next_driver_ends_with_the_same(
    tmp_path: Path, captures: Path, writes: Callable[[int], list[str]]
) -> None:
    done = writes(1 << 30)
    job(tmp_path / "whole", captures)
    expected, total = result(tmp_path / "whole"), len(done)
    assert expected[0] == ["a+b+c"]  # type: ignore[index]
    assert expected[2] == sorted(["a+b+c", "no a", "no b", "no c"])  # type: ignore[index]
    assert total > 20
    for number in range(total):
        path = tmp_path / f"cut-{number}"
        writes(number)
        with pytest.raises(PowerCut):
            job(path, captures)
        assert "".join(listed(path, "messages")).replace("+", "") in ("", "a", "ab", "abc"), "each row once"
        writes(1 << 30)
        job(path, captures)
        assert result(path) == expected, f"the power was cut at write {number}"
        assert [listed(path, name) for name in ("messages", "errors")] == [*expected[:2]]  # type: ignore[index]


def test_two_runs_and_one_run_give_the_same(tmp_path: Path, captures: Path) -> None:
    job(tmp_path / "one", captures)
    hidden = captures / "c.pcapng"
    hidden.rename(captures / "c.later")
    job(tmp_path / "two", captures)
    (captures / "c.later").rename(hidden)
    job(tmp_path / "two", captures)
    job(tmp_path / "two", captures)
    one, two = result(tmp_path / "one"), result(tmp_path / "two")
    assert two[0] == ["a+b+c"] == one[0]  # type: ignore[index]
    assert two[2] == one[2]  # type: ignore[index]


def test_what_is_being_written_is_not_taken_and_what_changed_is_told(tmp_path: Path, captures: Path) -> None:
    (captures / "d.pcapng.partial").write_text("d")
    with Ledger(str(tmp_path / "tables")) as held:
        files = sorted(map(str, captures.iterdir()))
        found = held.find(files)
        assert ([Path(each).name for each in found.new], found.partial) == (["a.pcapng", "b.pcapng", "c.pcapng"], 1)
        held.commit("ingest", [], captures=found.new)
        again = held.find(files)
        assert (again.new, again.changed, again.known) == ([], [], 3)
        os.utime(captures / "a.pcapng")  # copied, perhaps; it is the same
        (captures / "b.pcapng").write_text("longer")
        (captures / "c.pcapng").rename(captures / "c.pcapng.zst")  # compressed since
        last = held.find(sorted(map(str, captures.iterdir())))
        assert (last.new, last.changed) == ([], [str(captures / "b.pcapng")])
        named = [str(captures / ".." / captures.name / each.name) for each in captures.iterdir()]
        assert len(held.find(named).changed) == 1
        assert held.find(named).new == [], "named in another way"
        linked = tmp_path / "linked"
        linked.symlink_to(captures)
        (tmp_path / "a.pcapng").symlink_to(captures / "a.pcapng")
        (tmp_path / "new.pcapng").write_text("new")
        (tmp_path / "again.pcapng").symlink_to("new.pcapng")
        links = [tmp_path / "a.pcapng", linked / "c.pcapng.zst", tmp_path / "new.pcapng", tmp_path / "again.pcapng"]
        assert held.find(map(str, links)).new == [str(tmp_path / "new.pcapng")]


def test_commits_are_put_together_from_time_to_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger, "SNAPSHOT_EVERY", 4)
    with Ledger(str(tmp_path)) as held:
        for number in range(1, 19):
            stage(held, "messages", str(number))
            held.commit("ingest", ["messages"], through=number)
            assert contents(str(tmp_path)) == held.contents
    assert len(list((tmp_path / "_pipeline" / "commits").iterdir())) < 10
    assert len(list((tmp_path / "_pipeline" / "snapshots").iterdir())) == 2
    assert rows(tmp_path, "messages") == sorted(map(str, range(1, 19)))


def test_only_what_is_complete_is_committed(tmp_path: Path) -> None:
    with Ledger(str(tmp_path)) as held:
        stage(held, "frames", "cut off", f"attempt-1/{HOUR}")
        stage(held, "frames", "whole", HOUR)
        stage(held, "events", "all")
        held.only_complete("frames", [f"{HOUR}/part-00000.parquet"])
        held.commit("ingest", ["frames", "events"])
        assert rows(tmp_path, "frames") == ["whole"]
        assert rows(tmp_path, "events") == ["all"]
        stage(held, "frames", "of the next batch")
        held.commit("ingest", ["frames"])
    assert rows(tmp_path, "frames") == ["of the next batch", "whole"]
    assert on_disk(tmp_path) == ["all", "of the next batch", "whole"]
