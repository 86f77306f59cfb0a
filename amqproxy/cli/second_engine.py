"""Use of tshark for capture content that amqproxy does not read: TLS, and other link types."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from amqproxy.cli.failure import MISUSED, Failure

if TYPE_CHECKING:
    from amqproxy.capture.warnings import OnWarning
    from amqproxy.tshark.tshark import Tshark


@contextmanager
def second_engine(command: str, notify: OnWarning, keylog: Path | None, *, is_live: bool = False) -> Iterator[Tshark]:
    """Return tshark for one reading; raise `Failure` if `--keylog` needs it and it is missing."""
    from amqproxy.tshark.engine import TsharkMissing
    from amqproxy.tshark.tshark import Tshark

    if keylog is not None:
        try:
            with keylog.open("rb"):
                pass
        except OSError as error:
            raise Failure(f"{command}: --keylog {keylog}: {error.strerror}", MISUSED) from None
    try:
        engine = Tshark(notify, keylog=keylog, is_live=is_live)
    except TsharkMissing as missing:
        raise Failure(f"{command}: --keylog: {missing}") from None
    with engine:
        yield engine
