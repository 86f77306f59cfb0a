"""Lists of a table's committed files, for readers that know nothing of commits: DuckDB, pandas, Trino, Hive.

    messages/_symlink_format_manifest/manifest

has a line for each file, as Hive's `SymlinkTextInputFormat` and Delta Lake have it. It is replaced as a whole after a
commit, and before the files that the commit removed are deleted. So each of its files exists, and has its rows once,
also after a driver was killed: the list is then that of the commit before, until the next driver begins.
"""

from __future__ import annotations

from collections.abc import Iterable

from amqproxy.pipeline import storage
from amqproxy.pipeline.ledger.commits import Contents
from amqproxy.pipeline.ledger.files import TableFiles

MANIFEST = "_symlink_format_manifest/manifest"
"""Path of the list in the directory of a table."""


def write_manifests(place: TableFiles, contents: Contents, tables: Iterable[str]) -> None:
    """Write the lists of these tables, unless they are so already."""
    root = storage.absolute(place.root)
    for table in sorted(set(tables)):
        path = f"{table}/{MANIFEST}"
        text = "".join(f"{root}/{file}\n" for file in contents.files.get(table, ())).encode()
        try:
            is_new = place.read(path) != text
        except FileNotFoundError:
            is_new = True
        if is_new:
            place.write(path, text)
