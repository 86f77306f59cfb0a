"""Capture files of a command, which may read them more than once."""

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


def check_files(command: str, files: Sequence[Path]) -> None:
    """Raise `Failure` if there are no files, or for an unknown option, which looks like a file."""
    if not files:
        raise Failure(f"{command}: name a capture, or - for standard input", MISUSED)
    for each in map(str, files):
        if each.startswith("-") and each != STANDARD_INPUT:
            raise Failure(f"{command}: unknown option {each}; for a file of that name, write ./{each}", MISUSED)


class CaptureFiles:
    """Captures, read in order, repeatedly if `read_again`: then standard input is kept in a temporary file.

    `leg` selects the leg of a proxy recording: "client", "upstream" or "both". TLS sessions are decrypted with the
    secrets in the file `keylog` and in the captures.

    Warnings are printed once, and progress on each reading, followed by `detail`. Raise `Failure` if a capture cannot
    be read.
    """

    def __init__(
        self,
        command: str,
        files: Sequence[Path],
        *,
        read_again: bool = False,
        leg: str = "client",
        keylog: Path | None = None,
    ) -> None:
        check_files(command, files)
        self._command = command
        self._files = files
        self._is_read_again = read_again
        self._leg = leg
        self._keylog = keylog
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
        """Names of the captures for messages."""
        return ["standard input" if str(each) == STANDARD_INPUT else str(each) for each in self._files]

    def __enter__(self) -> CaptureFiles:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def decoded(self) -> Iterator[Decoded]:
        """Decode all captures from the beginning, as one capture."""
        from amqproxy.capture.decode import read_decoded
        from amqproxy.capture.warnings import CaptureError

        try:
            with Progress(self._files) as progress:
                self._progress = progress
                progress.detail = lambda: self.detail()  # evaluated when shown
                notify = self._notify(progress)
                sources = [self._standard_input() if str(each) == STANDARD_INPUT else each for each in self._files]
                with second_engine(self._command, notify, self._keylog) as engine:
                    yield from read_decoded(
                        sources, notify, progress.advance, leg=self._leg, engine=engine, by_session=True
                    )
        except CaptureError as error:
            raise Failure(str(error)) from None
        self._is_first = False

    def refresh(self) -> None:
        """Update the progress line, even if nothing has been read for a while."""
        if self._progress is not None:
            self._progress.refresh()

    def make_way(self) -> None:
        """Clear the progress line if it is in the way of output."""
        if self._progress is not None and self._progress.is_in_the_way:
            self._progress.clear()

    def clear(self) -> None:
        """Clear the progress line for good."""
        if self._progress is not None:
            self._progress.clear()

    def _notify(self, progress: Progress) -> Callable[[CaptureWarning], None]:
        from amqproxy.capture.warnings import WarningKind

        def notify(notice: CaptureWarning) -> None:
            if notice.kind is WarningKind.CUT_SHORT and not notice.offset:
                raise Failure(str(notice))  # not even the file header is complete
            if self._is_first:
                progress.clear()
                print(f"amqproxy: {notice}", file=sys.stderr)

        return notify

    def _standard_input(self) -> BinaryIO:
        if not self._is_read_again:
            return sys.stdin.buffer
        if self._kept is None:
            self._kept = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115 - closed by the exit stack
            shutil.copyfileobj(sys.stdin.buffer, self._kept)
        self._kept.seek(0)
        return self._kept
