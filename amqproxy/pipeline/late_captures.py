"""Late captures: older than the part of their chain that the tables have.

Their connections continue in files that were read without them, so the chain is read again from its first file, and
its rows are replaced: the tables are those of any other order. A chain that has lost files, or is too large, is not
read again; late captures that continue each other are then a chain of their own, and a row of type `lost` says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa

from amqproxy.pipeline import storage
from amqproxy.pipeline.chain_reading import LostPart
from amqproxy.pipeline.chains import Chain, Mode, capture_name, chains
from amqproxy.pipeline.event_rows import EventRows
from amqproxy.pipeline.ledger.captures import has_changed, present

if TYPE_CHECKING:
    from amqproxy.pipeline.ledger import Capture, Ledger

MAX_BYTES = 4 * 1024**3
"""Maximum size of a chain that is read again: one or two minutes of work, for each late file."""


class Apart(msgspec.Struct, frozen=True):
    """Late files that continue each other, and why their chain is not read again."""

    files: list[str]
    why: str


class LateCaptures(msgspec.Struct, frozen=True):
    """The late ones among new captures."""

    again: list[Chain]
    """Chains that are read again, with all their files."""
    apart: list[Apart]

    @property
    def files(self) -> list[str]:
        """All files of the chains that are read again."""
        return [file for chain in self.again for file in chain.files]

    @property
    def replaced(self) -> set[str]:
        """Chains whose rows are replaced, including those that earlier late files were."""
        return {name for chain in self.again for name in (chain.name, *map(capture_name, chain.files))}


def late_captures(ledger: Ledger, files: Sequence[str], mode: Mode) -> LateCaptures:
    """Find the late ones among new captures."""
    known = {capture.path: capture for capture in ledger.contents.captures.values()}
    found = LateCaptures([], [])
    for chain in chains([*known, *files], mode):
        last = max((place for place, file in enumerate(chain.files) if file in known), default=0)
        if all(file in known for file in chain.files[:last]):
            continue
        why = _why_apart(chain.files, known)
        if why is None:
            found.again.append(msgspec.structs.replace(chain, files=tuple(map(present, chain.files))))
        else:
            found.apart.extend(Apart(each, why) for each in _runs(chain.files[:last], known))
    return found


def _why_apart(files: Iterable[str], known: Mapping[str, Capture]) -> str | None:
    """Return why a chain cannot be read again, if so."""
    gone = changed = size = 0
    for file in files:
        try:
            size += storage.state_of(present(file)).size
        except OSError:
            gone += 1
            continue
        changed += file in known and has_changed(file, known[file])
    if gone:
        return f"{gone:,} of its files {'is' if gone == 1 else 'are'} gone"
    if changed:
        return f"{changed:,} of its files changed since"
    return f"it has {size / 1e9:,.0f} GB" if size > MAX_BYTES else None


def _runs(files: Iterable[str], known: Mapping[str, Capture]) -> list[list[str]]:
    """Return the late files, each list of those that continue each other."""
    runs: list[list[str]] = [[]]
    for file in files:
        if file not in known:
            runs[-1].append(file)
        elif runs[-1]:
            runs.append([])
    return [each for each in runs if each]


def rows_about(apart: Iterable[Apart]) -> pa.Table:
    """Return a row of `events` for each of these files: what continues before or after them is not known."""
    made = []
    for each in apart:
        rows = EventRows(capture_name(each.files[0]))
        text = f"came after later files of its chain, which is not read again, since {each.why}"
        for file in each.files:
            rows.add_lost(LostPart(file, "late", text, None, storage.state_of(file).modified_ns))
        made.append(rows.take())
    return pa.Table.from_batches(made)
