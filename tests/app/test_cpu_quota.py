"""What the control groups of a process allow it."""

import math
from pathlib import Path

import pytest

from amqproxy.app.cpu_quota import cpu_quota


def root_with(tmp_path: Path, groups: str, **limits: str) -> Path:
    """A file system where a process is in `groups`; the limit of each group by its path, with `_` for a slash."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/cgroup").write_text(groups)
    for path, limit in limits.items():
        group = tmp_path / "sys/fs/cgroup" / path.strip("_").replace("_", "/")
        group.mkdir(parents=True, exist_ok=True)
        (group / "cpu.max").write_text(limit)
    return tmp_path


@pytest.mark.parametrize(
    ("groups", "limits", "quota"),
    [
        ("0::/\n", {"_": "50000 100000\n"}, 0.5),
        ("0::/\n", {"_": "max 100000\n"}, math.inf),
        ("0::/\n", {}, math.inf),
        ("0::/\n", {"_": "?"}, math.inf),
        ("0::/\n", {"_": "1 0"}, math.inf),
        ("0::/a/b\n", {"a": "150000 100000", "a_b": "max 100000"}, 1.5),
        ("0::/a/b\n", {"a": "150000 100000", "a_b": "250000 1000000"}, 0.25),
        ("0::/of/the/machine\n", {"_": "200000 100000"}, 2.0),
        ("4:cpu:/a\n", {"a": "100000 100000"}, math.inf),
        ("", {}, math.inf),
    ],
)
def test_the_least_of_its_groups(tmp_path: Path, groups: str, limits: dict[str, str], quota: float) -> None:
    assert cpu_quota(root_with(tmp_path, groups, **limits)) == quota


def test_none_where_there_are_no_groups(tmp_path: Path) -> None:
    assert cpu_quota(tmp_path) == math.inf


def test_of_this_process() -> None:
    assert cpu_quota() > 0
