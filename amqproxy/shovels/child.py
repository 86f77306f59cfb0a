"""The shovels of a broker as a process of its own, so that no client of the broker waits for them.

Commands come on standard input, a Unix socket, whose end ends the process; reports leave by it.
"""

from __future__ import annotations

import resource
import signal
import socket
from contextlib import suppress

import msgspec
import trio

from amqproxy.process.supervision import supervised
from amqproxy.shovels.broker_line import BrokerLine
from amqproxy.shovels.openings import Openings
from amqproxy.shovels.shovel_messages import (
    Command,
    CountsReport,
    LocalConnection,
    ShovelCounts,
    StartShovel,
    StopShovel,
)
from amqproxy.shovels.shovel_task import ShovelTask

COUNT_INTERVAL = 0.5
"""Seconds between two reports of counts."""

COUNTS_A_LINE = 256

_decoder = msgspec.json.Decoder(Command)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the broker handles SIGINT, and closes standard input
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # each shovel has two connections
    trio.run(_run, socket.socket(fileno=0))


async def _run(broker: socket.socket) -> None:
    line = BrokerLine(trio.socket.from_stdlib_socket(broker))
    openings = Openings()
    tasks: dict[int, ShovelTask] = {}
    newest: dict[tuple[str, str], ShovelTask] = {}

    async def attend(task: ShovelTask) -> None:
        await supervised("shovel failed", task.run, openings)
        del tasks[task.number]
        if newest.get(task.name) is task:
            del newest[task.name]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_report_counts, line, tasks)
        async for data in line.received():
            command = _decoder.decode(data)
            match command:
                case StartShovel():
                    name = (command.shovel.vhost, command.shovel.name)
                    task = ShovelTask(command, line.open_local, line.report, newest.get(name))
                    tasks[task.number] = newest[name] = task
                    nursery.start_soon(attend, task)
                case StopShovel() if command.number in tasks:
                    tasks[command.number].stop()
                case LocalConnection():
                    line.answer(command)
        nursery.cancel_scope.cancel()


async def _report_counts(line: BrokerLine, tasks: dict[int, ShovelTask]) -> None:
    """Report the counts that have changed, from time to time."""
    reported: dict[int, ShovelCounts] = {}
    while True:
        await trio.sleep(COUNT_INTERVAL)
        counts = {number: each.counts for number, each in tasks.items()}
        changed = [each for number, each in counts.items() if each is not None and each != reported.get(number)]
        reported = {number: each for number, each in counts.items() if each is not None}
        for first in range(0, len(changed), COUNTS_A_LINE):
            await line.report(CountsReport(changed[first : first + COUNTS_A_LINE]))


if __name__ == "__main__":
    main()
