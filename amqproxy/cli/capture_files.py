"""The captures that a command names, which it may have to read more than once."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO

from amqproxy.cli.failure import MISUSED, Failure
from amqproxy.cli.progress import Progress
from amqproxy.cli.second_engine import second_engine

if TYPE_CHECKING:
    from amqproxy.capture.decoded import Decoded
    from amqproxy.capture.warnings import CaptureWarning

STANDARD_INPUT = "-"


class CaptureFiles:
    """Captures, read in order, as often as is asked if they are `read_again`: then standard input is kept in a file.

    Of a recording of the proxy's, what passed on `leg` is read: "client", "upstream" or "both". TLS sessions are
    decrypted with the secrets of the file `keylog`, and with those in the captures. Connections of 0-10 are of another
    protocol unless it `reads_amqp010`.

    Warnings are printed the first time, and progress each time, with `detail` behind it. `Failure` where a capture
    cannot be read.
    """

    def __init__(
        self,
        command: str,
        files: Sequence[Path],
        *,
        read_again: bool = False,
        leg: str = "client",
        keylog: Path | None = None,
        reads_amqp010: bool = False,
    ) -> None:
        if not files:
            raise Failure(f"{command}: name a capture, or - for standard input", MISUSED)
        for each in map(str, files):
            if each.startswith("-") and each != STANDARD_INPUT:
                raise Failure(f"{command}: unknown option {each}; for a file of that name, write ./{each}", MISUSED)
        self._command = command
        self._files = files
        self._is_read_again = read_again
        self._leg = leg
        self._keylog = keylog
        self._reads_amqp010 = reads_amqp010
        self.detail: Callable[[], str] = str
        self._kept: BinaryIO | None = None
        self._is_first = True
        self._progress: Progress | None = None
        self._stack = ExitStack()

    @property
    def has_standard_input(self) -> bool:
        return STANDARD_INPUT in map(str, self._files)

    @property
    def names(self) -> list[str]:
        """What a person calls them."""
        return ["standard input" if str(each) == STANDARD_INPUT else str(each) for each in self._files]

    def __enter__(self) -> CaptureFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def decoded(self) -> Iterator[Decoded]:
        """What was decoded, from the beginning: all of them are one capture."""
        from amqproxy.capture.decode import read_decoded
        from amqproxy.capture.warnings import CaptureError

        try:
            with Progress(self._files) as progress:
                self._progress = progress
                progress.detail = lambda: self.detail()  # as it is by then
                notify = self._notify(progress)
                sources = [self._standard_input() if str(each) == STANDARD_INPUT else each for each in self._files]
                with second_engine(self._command, notify, self._keylog) as engine:
                    yield from read_decoded(
                        sources,
                        notify,
                        progress.advance,
                        leg=self._leg,
                        engine=engine,
                        reads_amqp010=self._reads_amqp010,
                    )
        except CaptureError as error:
            raise Failure(str(error)) from None
        self._is_first = False

    def refresh(self) -> None:
        """Show the progress anew, also where nothing is read for long."""
        if self._progress is not None:
            self._progress.refresh()

    def make_way(self) -> None:
        """Take the progress away, where it stands in the way of output."""
        if self._progress is not None and self._progress.is_in_the_way:
            self._progress.clear()

    def clear(self) -> None:
        """Take the progress away for good, where it was shown behind the end of the capture."""
        if self._progress is not None:
            self._progress.clear()

    def _notify(self, progress: Progress) -> Callable[[CaptureWarning], None]:
        from amqproxy.capture.warnings import WarningKind

        def notify(notice: CaptureWarning) -> None:
            if notice.kind is WarningKind.CUT_SHORT and not notice.offset:
                raise Failure(str(notice))  # not even the file's own header is whole
            if self._is_first:
                progress.clear()
                print(f"amqproxy: {notice}", file=sys.stderr)

        return notify

    def _standard_input(self) -> BinaryIO:
        if not self._is_read_again:
            return sys.stdin.buffer
        if self._kept is None:
            self._kept = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - that is where it is closed
            shutil.copyfileobj(sys.stdin.buffer, self._kept)
        self._kept.seek(0)
        return self._kept
