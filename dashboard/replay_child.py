"""`amqproxy replay` as a child process of the dashboard, which sends the arguments on standard input.

They are one line of JSON: they contain a password, which must not appear in process lists. The end of standard input
ends the replay, whose report is still written.
"""

from __future__ import annotations

import os
import runpy
import signal
import sys
import threading

import msgspec

LAST_SECONDS = 3.0
"""Seconds for the report after the replay is told to end."""


def main() -> None:
    with open(0, "rb", buffering=0, closefd=False) as tasks:
        sys.argv = ["amqproxy", "replay", *msgspec.json.decode(tasks.readline(), type=list[str])]
    signal.signal(signal.SIGINT, signal.default_int_handler)  # the dashboard may ignore it, and a child inherits that
    threading.Thread(target=_end_with_input, daemon=True).start()
    runpy.run_module("amqproxy", run_name="__main__")


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGINT)
    threading.Event().wait(LAST_SECONDS)
    os._exit(1)  # the shutdown hangs


if __name__ == "__main__":
    main()
