"""Memory and disk, as the machine reports them."""

import shutil
from pathlib import Path

from amqproxy.broker.server.machine_resources import disk_free, memory_in_use, usual_memory_limit


def test_memory_is_known_and_bounded() -> None:
    in_use = memory_in_use()
    assert in_use is not None
    assert 1_000_000 < in_use < usual_memory_limit()


def test_room_on_the_disk(tmp_path: Path) -> None:
    free = disk_free(tmp_path)
    assert free is not None
    assert 0 <= free <= shutil.disk_usage(tmp_path).total
    assert disk_free(tmp_path / "missing") is None
