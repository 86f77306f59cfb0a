"""`amqproxy completion`: scripts that shells can read."""

import shutil
import subprocess

import pytest

from tests.cli.outcome import Amqproxy


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("completion", shell)
    assert (code, err) == (0, "")
    assert "amqproxy" in out
    assert "decode" in out
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=out, text=True, check=True)
