"""Decoding of one capture by several processes, each of which decodes some connections, or prints some packets.

Each process reads and reassembles the whole capture, which is the smallest part of the work, so that all number the
connections alike. Their lines are merged by the packet that caused them. At most one chunk per process is held.

If each frame is printed by itself, all processes find the frames of the whole capture, which costs little compared with
printing, and take turns by packets; so the number of connections does not matter. No process starts in the middle of
the file, since decoding depends on everything before.
"""

from __future__ import annotations

import heapq
import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from operator import itemgetter

from amqproxy.capture.byte_window import OnRead
from amqproxy.capture.decode import ignored_streams
from amqproxy.capture.decoded import Decoded
from amqproxy.capture.share import Share
from amqproxy.capture.warnings import CaptureError, CaptureWarning, OnWarning
from amqproxy.cli.failure import Failure
from amqproxy.views.view import View

CHUNK_CHARACTERS = 256 * 1024
"""Number of characters after which a process sends its lines."""

Read = Callable[[Share, OnWarning, OnRead], Iterable[Decoded]]
"""Reads the capture."""

_Line = tuple[int, int, str]
"""Packet that caused a line, its stream, and the line."""


def lines_of_jobs(
    view: View, read: Read, jobs: int, name: str, notify: OnWarning, on_read: OnRead, *, by_packet: bool = False
) -> Generator[str, None, None]:
    """Yield the lines of a view in the order of a single process.

    The view must be made of each connection by itself or, `by_packet`, of each frame by itself. Raise `Failure` if a
    process ends early; the other processes are ended in any case.
    """
    context = get_context("fork")
    processes: list[BaseProcess] = []
    ignored: list[int] = []
    errors: list[CaptureError] = []
    sources: list[Iterator[_Line]] = []
    try:
        for number in range(jobs):
            receiving, sending = context.Pipe(duplex=False)
            process = context.Process(
                target=_work, args=(sending, view, read, Share(number, jobs, by_packet)), daemon=True
            )
            process.start()
            sending.close()
            processes.append(process)
            sources.append(_received(process, receiving, number, notify, on_read, ignored, errors))
        for _, _, line in heapq.merge(*sources, key=itemgetter(0, 1)):
            yield line
        if errors:
            raise errors[0]
        if by_packet:  # each has counted all of them
            ignored = ignored[:1]
        if sum(ignored):
            notify(ignored_streams(name, sum(ignored)))
    finally:
        for each in processes:
            each.terminate()
        for each in processes:
            each.join()


def _received(
    process: BaseProcess,
    receiving: Connection,
    number: int,
    notify: OnWarning,
    on_read: OnRead,
    ignored: list[int],
    errors: list[CaptureError],
) -> Iterator[_Line]:
    """Yield the lines of one process; warnings and progress are taken from the first process only."""
    with receiving:
        while True:
            try:
                found = receiving.recv()
            except (EOFError, OSError):
                process.join()
                raise Failure(f"decode: a process of --jobs ended unexpectedly ({_ending(process)})") from None
            if isinstance(found, list):
                yield from found
            elif isinstance(found, CaptureError):
                errors.append(found)
                return
            elif isinstance(found, Share):
                ignored.append(found.ignored)
                return
            elif number == 0 and isinstance(found, CaptureWarning):
                notify(found)
            elif number == 0:
                on_read(found)


def _ending(process: BaseProcess) -> str:
    code = process.exitcode or 0
    return f"exit code {code}" if code >= 0 else signal.Signals(-code).name


def _work(sending: Connection, view: View, read: Read, share: Share) -> None:
    """Send the lines of a share, then the share, or the error that ended reading."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent ends its processes
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with suppress(BrokenPipeError):  # the reader is gone
        stream = -1

        def passing(decoded: Iterable[Decoded]) -> Iterator[Decoded]:
            nonlocal stream
            for each in decoded:
                stream = each.stream
                yield each

        lines: list[_Line] = []
        held = 0
        ended: Share | CaptureError = share
        try:
            for line in view.lines(passing(read(share, sending.send, sending.send))):
                if stream < 0 and share.number:
                    continue  # a heading, printed once for all
                lines.append((share.position, stream, line))
                held += len(line)
                if held >= CHUNK_CHARACTERS:
                    sending.send(lines)
                    lines, held = [], 0
        except CaptureError as error:
            ended = error
        sending.send(lines)
        sending.send(ended)
