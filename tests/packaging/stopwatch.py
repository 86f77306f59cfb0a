"""Says what is done, and how long it took."""

import time


class Stopwatch:
    def __init__(self, name: str) -> None:
        self._name = name
        self._began = time.monotonic()

    def say(self, what: str) -> None:
        """Print a line with the seconds since the last one."""
        now = time.monotonic()
        print(f"{self._name}: {now - self._began:6.1f} s  {what}", flush=True)
        self._began = now
