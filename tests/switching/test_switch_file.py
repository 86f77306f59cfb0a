"""The file of switches is the old one or the new one, and a wrong one is not ignored."""

from __future__ import annotations

from pathlib import Path

import pytest

from amqproxy.configuration.config import ConfigError
from amqproxy.moving.move_job import MovedQueue
from amqproxy.switching.phase import Phase
from amqproxy.switching.switch import Switch
from amqproxy.switching.switch_file import SwitchFile

SWITCH = Switch(
    name="s",
    source="blue",
    target="green",
    when="client.port > 5",
    strict=True,
    queues=(MovedQueue("/", "q", "quorum"),),
    phase=Phase.AT_TARGET,
)


async def test_what_is_kept_is_loaded(tmp_path: Path) -> None:
    file = SwitchFile(tmp_path / "switches.json")
    assert file.load() == ()
    await file.keep([SWITCH])
    assert file.load() == (SWITCH,)
    file.save([])
    assert file.load() == ()


def test_no_other_file_is_left(tmp_path: Path) -> None:
    SwitchFile(tmp_path / "switches.json").save([SWITCH])
    assert [each.name for each in tmp_path.iterdir()] == ["switches.json"]


def test_a_write_that_was_cut_off_leaves_the_old_file(tmp_path: Path) -> None:
    file = SwitchFile(tmp_path / "switches.json")
    file.save([SWITCH])
    (tmp_path / "switches.json.new").write_text('{"switches": [')
    assert file.load() == (SWITCH,)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is not a file of switches"),
        ("[]", "is not a file of switches"),
        ('{"switches": [], "version": 2}', "is of version 2: a later amqproxy wrote it"),
    ],
)
def test_a_wrong_file_is_an_error(text: str, fault: str, tmp_path: Path) -> None:
    (tmp_path / "switches.json").write_text(text)
    with pytest.raises(ConfigError, match=fault):
        SwitchFile(tmp_path / "switches.json").load()


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        SwitchFile(tmp_path).load()
