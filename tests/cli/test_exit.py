"""How the command ends when its output cannot be written."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from amqproxy.cli.failure import FAILED, UNHEARD
from tests.cli.process import COMMAND, DEADLINE, start


@pytest.mark.parametrize("command", [["version"], ["config", "show"], ["config", "schema"], ["completion", "bash"]])
def test_the_output_is_not_read(command: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with start(*command, stdout=writing) as process:
        os.close(writing)
        _, err = process.communicate(timeout=DEADLINE)
    assert (process.returncode, err) == (UNHEARD, "")


@pytest.mark.parametrize("arguments", [["config", "schema"], ["version"]])
def test_a_full_disk_is_a_plain_error(arguments: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([*COMMAND, *arguments], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (
        FAILED,
        "amqproxy: cannot write the output: No space left on device\n",
    )


def test_a_lack_of_memory_is_a_plain_error() -> None:
    program = (
        "from amqproxy.cli import exit, main\n"
        "def fail(*given): bytearray(1 << 62)\n"
        "exit.app, exit.add_addon_commands = fail, print\n"
        "main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    told = "amqproxy: out of memory: raise its limit, or give it less at a time\n"
    assert (done.returncode, done.stderr) == (FAILED, told)


def test_output_may_be_closed() -> None:
    done = subprocess.run(f"{' '.join(COMMAND)} version >&-", shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
