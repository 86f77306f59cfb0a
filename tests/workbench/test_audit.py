"""The audit of runs on a disk that is full, or writes parts."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

import pytest

from amqproxy.moving.message_forwarder import MoveFailed
from amqproxy.workbench.audit import Audit


def test_a_line_is_whole_although_parts_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda file, data: write(file, data[:7]))
    audit = Audit(tmp_path / "audit.jsonl", "r", {"queue": "q"})
    audit.begin()
    audit.note("ended", {})
    audit.close()
    lines = (tmp_path / "audit.jsonl").read_bytes().splitlines()
    assert [json.loads(line)["event"] for line in lines] == ["begun", "ended"]


def test_a_full_disk_is_named_and_tears_one_line_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "audit.jsonl"
    audit = Audit(path, "r", {})
    write, room = os.write, [7]

    def written(file: int, data: bytes) -> int:
        if not room:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: room.pop()])

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", written)
        with pytest.raises(MoveFailed, match=f"^audit {path}: No space left on device$"):
            audit.begin()
    audit.note("ended", {})
    audit.close()
    torn, ended = path.read_bytes().splitlines()
    assert (len(torn), json.loads(ended)["event"]) == (7, "ended")
