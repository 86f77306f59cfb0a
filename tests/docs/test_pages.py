"""Tutorial and how-tos: each page is done as it is written, in a network of its own, where its ports are free."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.page_runner import Block, Command, blocks, commands, pattern

pytestmark = pytest.mark.once

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "docs" / "tutorial.md", *sorted((ROOT / "docs" / "howto").glob("*.md"))]
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


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_is_true(page: Path, own_network: tuple[str, ...]) -> None:
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


def test_output_is_compared_by_words() -> None:
    shown = pattern("10:59 #1 …  basic.publish  routing_key=orders …")
    assert shown.search("10:59 #1   → ch 1    basic.publish routing_key=orders x=1\n")
    assert not shown.search("10:59 #1 basic.publish routing_key=other x\n")
