"""README, tutorial and how-tos: each is done as it is written, in a network of its own, where its ports are free."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_runner import Block, Command, PageFailed, blocks, commands, do, installations, pattern
from tests.docs.pages import DONE, PROGRAMS, ROOT

pytestmark = pytest.mark.once

IN_OWN_NETWORK = ("unshare", "--net", "--map-root-user", "bash", "-c", 'ip link set lo up && exec "$@"', "-")


@pytest.fixture(scope="session")
def own_network() -> tuple[str, ...]:
    reason = None
    if not shutil.which("unshare") or not shutil.which("ip"):
        reason = "needs unshare and ip: apt-get install util-linux iproute2"
    elif subprocess.run([*IN_OWN_NETWORK, "true"], capture_output=True, check=False).returncode:
        reason = "needs a kernel that lets users have a network of their own"
    if reason and os.environ.get("CI") == "true":
        pytest.fail(reason)
    if reason:
        pytest.skip(reason)
    return IN_OWN_NETWORK


@pytest.mark.parametrize("page", DONE, ids=lambda page: page.stem)
def test_a_page_is_true(page: Path, own_network: tuple[str, ...]) -> None:
    program = PROGRAMS.get(page.stem)
    if program and not shutil.which(program) and os.environ.get("CI") != "true":
        pytest.skip(f"needs {program}: apt-get install {program}")
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {"PATH": path, "NO_COLOR": "1", "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
    done = subprocess.run(
        [*own_network, sys.executable, "-m", "tests.docs.page_runner", str(page)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_blocks_and_commands_are_found() -> None:
    page = """
Write:

```toml title="a.toml"
x = 1
```

<!-- only to read: it takes an hour -->
```console
$ sleep 3600
```

1. Run:

   ```console
   $ echo a \\
   > b
   a b
   $ server &
   up
   ```
"""
    found = list(blocks(page))
    assert found[0] == Block("toml", "a.toml", "x = 1\n", 4)
    assert list(commands(found[1])) == [Command("echo a \\\nb", ("a b",), 16), Command("server &", ("up",), 19)]


def test_what_a_page_installs_is_found() -> None:
    page = '```console\n$ pip install "amqproxy[dashboard]" pika\n$ amqproxy version\n```\n'
    assert list(installations(page)) == ['pip install "amqproxy[dashboard]" pika']


def test_output_is_compared_by_words() -> None:
    shown = pattern("10:59 #1 …  basic.publish  routing_key=orders …")
    assert shown.search("10:59 #1   → ch 1    basic.publish routing_key=orders x=1\n")
    assert not shown.search("10:59 #1 basic.publish routing_key=other x\n")


@pytest.mark.parametrize(
    ("page", "fault"),
    [
        ("```console\n$ echo one\ntwo\n```\n", "without 'two'"),
        ("```console\n$ false\n```\n", "exit code 1"),
        ("```console\n$ false | cat\n```\n", "exit code 1"),
        ("```console\n$ exit 4 &\n```\n", "exit code 4"),
        ("```console\n$ echo up && sleep 1 && exit 5 &\nup\n$ sleep 2\n```\n", "exit code 5"),
        ("<!-- first: test -e nowhere -->\n", "exit code 1"),
        ("<!-- until Ctrl-C -->\n```console\n$ exit 3\n```\n", "exit code 3"),
        ('```console\n$ pip install "amqproxy[none]"\n```\n', "no such extra: none"),
        ("```console\n$ pip install amqproxy no-such-package\n```\n", "not installed: no-such-package"),
        ("```console\n$ sleep 60 &\n$ exit 6\nit\n```\n", "without 'it'"),
    ],
)
def test_what_is_not_true_is_found(page: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(page)
    with pytest.raises(PageFailed, match=fault):
        do(file)


def test_what_goes_on_is_ended(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    file.write_text(
        "<!-- first: touch seen -->\n<!-- until Ctrl-C -->\n```console\n$ test -e seen && sleep 3600\n```\n"
        '```console\n$ pip install "amqproxy[dashboard]"   # and more\n```\n'
    )
    do(file)


def test_lines_of_commands_that_stay_are_seen_as_in_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "page.md"
    server = "echo up; until test -e asked; do sleep 0.1; done; echo answered; sleep 3600"
    file.write_text(f"```console\n$ {server} &\nup\n$ echo asking; touch asked\nasking\nanswered\n```\n")
    do(file)
