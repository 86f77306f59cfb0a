"""What views show of captures, as files: `python -m tests.views.snapshots` writes them anew.

Look at what changed before you commit it.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.capture import golden
from tests.cli.process import COMMAND
from tests.views.followed import capture

FOLDER = Path(__file__).parent / "snapshots"

SNAPSHOTS = {
    "follow-confirms.txt": ("confirms", ["--follow", "0"]),
    "sequence-channel-error.txt": ("channel-error", ["--sequence"]),
    "sequence-consume-large.txt": ("consume-large", ["--sequence"]),
    "sequence-confirms.svg": ("confirms", ["--svg", "-", "--follow", "0/1"]),
    "stats-confirms.txt": ("confirms", ["--stats"]),
    "stats-consume-large.txt": ("consume-large.dropped", ["--stats"]),
    "follow-consume-large.txt": ("consume-large.dropped", ["--follow", "0/2", "--body=24"]),
}
"""The file of each, its capture and the options of `amqproxy decode`."""


def shown(name: str) -> str:
    """What is printed for a snapshot today."""
    source, options = SNAPSHOTS[name]
    environment = {name: value for name, value in os.environ.items() if name != "FORCE_COLOR"}
    command = [*COMMAND, "decode", str(capture(source)), *options]
    ended = subprocess.run(
        command, capture_output=True, cwd=golden.FOLDER, env={**environment, "PYTHONUTF8": "1"}, check=True
    )
    return ended.stdout.decode()


if __name__ == "__main__":
    for each in SNAPSHOTS:
        (FOLDER / each).write_text(shown(each))
        sys.stdout.write(f"{each}\n")
