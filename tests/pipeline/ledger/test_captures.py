"""Captures as they were: changed, copied, compressed, or gone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from amqproxy.pipeline.ledger.captures import capture_of, has_changed, present

pytestmark = pytest.mark.once


def test_a_change_is_seen_at_both_ends_of_a_capture(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    content = bytes(300_000)
    file.write_bytes(content)
    seen = capture_of(str(file))
    os.utime(file, ns=(0, 0))
    assert not has_changed(str(file), seen), "it was only copied"
    for changed in (b"x" + content[1:], content[:-1] + b"x", content + b"x", content[:-1]):
        file.write_bytes(changed)
        assert has_changed(str(file), seen)
    file.unlink()
    assert not has_changed(str(file), seen), "it is gone, which is for a recorder to decide"
    assert capture_of(str(file)).size == -1


@pytest.mark.parametrize("ending", ["", ".zst", ".gz", ".lz4"])
def test_a_capture_is_found_compressed(tmp_path: Path, ending: str) -> None:
    file = tmp_path / f"a.pcapng{ending}"
    file.touch()
    assert present(str(tmp_path / "a.pcapng")) == str(file)
    assert present(str(tmp_path / "b.pcapng")) == str(tmp_path / "b.pcapng")
