"""`amqproxy completion`: scripts with which shells complete commands and options."""

from __future__ import annotations

import os
import pty
import subprocess
from pathlib import Path

import pytest

from tests.cli.outcome import Amqproxy
from tests.real.poll import until
from tests.real.require import require

LINES = [("deco\t", "decode"), ("control conn\t", "control connections"), ("decode --mess\t", "decode --messages")]
"""Text typed after the name of the command, and its completion."""

LOADED = {
    "bash": "source {script}\n",
    "zsh": "autoload -Uz compinit && compinit -u -D && source {script} && compdef _cyclopts_amqproxy amqproxy\n",
}
OPTIONS = {"bash": ["--norc", "--noprofile", "-i"], "zsh": ["-f", "-i"]}
STUBS = {
    "bash": 'amqproxy() {{ printf "%s\\n" "$*" >>{given}; }}\n',
    "zsh": 'amqproxy() {{ print -r -- "$*" >>{given}; }}\n',
}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_reads_it(shell: str, amqproxy: Amqproxy) -> None:
    code, out, err = amqproxy("completion", shell)
    assert (code, err) == (0, "")
    subprocess.run([require(shell), "-n"], input=out, text=True, check=True)


@pytest.mark.once
@pytest.mark.parametrize(("typed", "completed"), LINES)
def test_fish_completes_what_is_typed(typed: str, completed: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    script = tmp_path / "amqproxy.fish"
    script.write_text(amqproxy("completion", "fish").out)
    asked = f"source {script}; complete -C 'amqproxy {typed.strip()}'"
    command = [require("fish"), "--no-config", "-c", asked]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ | {"HOME": str(tmp_path)})
    assert [line.partition("\t")[0] for line in done.stdout.splitlines()] == [completed.split()[-1]]


@pytest.mark.once
@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_shell_completes_what_is_typed(shell: str, amqproxy: Amqproxy, tmp_path: Path) -> None:
    """On a terminal, with a stub of the command that writes its arguments to a file."""
    script, given = tmp_path / "script", tmp_path / "given"
    script.write_text(amqproxy("completion", shell).out)
    given.touch()
    terminal, side = pty.openpty()
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    process = subprocess.Popen(
        [require(shell), *OPTIONS[shell]],
        stdin=side,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env=environment,
        cwd=tmp_path,
        start_new_session=True,
    )
    os.close(side)
    try:
        for line in (LOADED[shell], STUBS[shell]):
            os.write(terminal, line.format(script=script, given=given).encode())
        for number, (typed, completed) in enumerate([("ready", "ready"), *LINES], 1):
            os.write(terminal, f"amqproxy {typed}\n".encode())
            until(lambda n=number: len(given.read_text().splitlines()) >= n, f"{shell} to complete {typed!r}")  # type: ignore[misc]
            assert given.read_text().splitlines()[-1].strip() == completed
    finally:
        process.kill()
        process.wait()
        os.close(terminal)
