"""`amqproxy verify`: compares the decoding of captures with tshark's."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from amqproxy.cli.capture_files import check_files
from amqproxy.cli.failure import Failure
from amqproxy.cli.options import Capture, Flag
from amqproxy.cli.progress import Progress

if TYPE_CHECKING:
    from amqproxy.capture.warnings import CaptureWarning


def verify(
    *files: Capture,
    json: Flag = False,
) -> None:
    """Decode captures with tshark too, and show every difference: frame by frame, methods, fields, sizes and bodies.

    Differences explained by known faults of Wireshark's dissector are marked, and are not failures. For others the
    exit code is 1. Needs tshark, and pip install 'amqproxy[captures]'.

    Parameters
    ----------
    files
        The captures, verified separately: files, or directories of them; - is standard input.
    json
        Print one JSON object per line for each difference, and finally for each capture, instead of text.
    """
    from amqproxy.capture.files import files_of, name_of
    from amqproxy.capture.warnings import CaptureError, WarningKind
    from amqproxy.taps.record import encoded
    from amqproxy.tshark.engine import TsharkMissing, version
    from amqproxy.tshark.verification import Counts, verified

    check_files("verify", files)
    unexplained = 0
    try:
        tshark = version()
        captures = [Path(str(each.source)) for each in files_of(files)]
        with Progress(captures) as progress:

            def notify(notice: CaptureWarning) -> None:
                if notice.kind is not WarningKind.IGNORED:
                    progress.clear()
                    print(f"amqproxy: {notice}", file=sys.stderr)

            for capture in captures:
                counts, name = Counts(), name_of(capture)
                with _file_of(capture) as file:
                    for difference in verified(file, counts, notify, progress.advance, name=name):
                        progress.clear()
                        print(encoded(difference).decode() if json else str(difference))
                unexplained += counts.differences
                progress.clear()
                summary = {"file": name, "tshark": tshark, **counts.as_dict()}
                print(encoded(summary).decode() if json else f"{name}: {counts} (tshark {tshark})")
    except TsharkMissing as missing:
        raise Failure(f"verify: {missing}") from None
    except CaptureError as error:
        sys.stdout.flush()
        raise Failure(str(error)) from None
    if unexplained:
        sys.stdout.flush()
        raise Failure(f"verify: {unexplained} differences that no known fault of tshark explains")


@contextmanager
def _file_of(capture: Path) -> Iterator[str]:
    """Return a file that can be read more than once."""
    if str(capture) != "-":
        yield str(capture)
        return
    with tempfile.NamedTemporaryFile(prefix="amqproxy-") as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept)
        kept.flush()
        yield kept.name
