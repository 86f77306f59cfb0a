"""`amqproxy replay` as a child of the dashboard, which tells it on standard input what to play.

That is one line of JSON, the arguments: a password is among them, which no list of processes is to show. The end of
standard input is the end of the replay, or of the dashboard: what was played by then is still reported.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

import msgspec

LAST_SECONDS = 3.0
"""How long the report may take once the replay is to end."""


def main() -> None:
    with open(0, "rb", buffering=0, closefd=False) as tasks:
        sys.argv = ["amqproxy", "replay", *msgspec.json.decode(tasks.readline(), type=list[str])]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the dashboard may have it ignored
    threading.Thread(target=_end_with_input, daemon=True).start()
    runpy.run_module("amqproxy", run_name="__main__")


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(LAST_SECONDS)
    os._exit(1)  # whatever hangs


if __name__ == "__main__":
    main()
