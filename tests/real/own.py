"""The integrated broker as a process: on a port, or inside a proxy."""

import sys
from pathlib import Path

from tests.real.proxy import Program


class OwnBroker(Program):
    """`amqproxy broker`, or with `is_inside` the one of `amqproxy run --upstream broker`; nothing is on the disk."""

    def __init__(self, directory: Path, *options: str, is_inside: bool = False, records: Path | None = None) -> None:
        self.full = directory / "memory-is-full"
        place = ["--listen", "127.0.0.1:0"]
        arguments = ["run", *place, "--upstream", "broker"] if is_inside else ["broker", *place]
        command = (sys.executable, "-m", "tests.real.full", str(self.full), *arguments, *options)
        super().__init__(directory / "own.log", *command, records=records)

    def ctl(self, command: str, share: str) -> str:
        """Understands what the scenarios ask of rabbitmqctl: how much of the memory may be in use."""
        assert command == "set_vm_memory_high_watermark"
        if float(share):
            self.full.unlink(missing_ok=True)
        else:
            self.full.touch()
        return ""
