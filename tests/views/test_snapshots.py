"""Views of golden captures look as they did; `python -m tests.views.snapshots` writes them anew."""

from __future__ import annotations

import pytest

from tests.views.snapshots import FOLDER, SNAPSHOTS, shown


@pytest.mark.parametrize("name", SNAPSHOTS)
def test_a_view_is_shown_as_before(name: str) -> None:
    assert shown(name) == (FOLDER / name).read_text()


def test_no_snapshot_is_left_over() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(SNAPSHOTS)
