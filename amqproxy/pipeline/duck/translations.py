"""Translated queries, kept from one process to the next: to translate those of all jobs takes most of a second.

They are in a file of the user's cache directory, with a digest. One that is damaged, or cannot be written, is as good
as none.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from hashlib import blake2b
from importlib.metadata import version
from pathlib import Path

import msgspec

from amqproxy.pipeline.cache_directory import cache_directory

MOST = 512
"""Maximum number of queries that are kept; those of this process come first."""

_NUMBER = re.compile(r"(?<![\w.])\d{10,}L?(?!\w)")
_PLACE = re.compile(r"__number_(\d+)__")


class _File(msgspec.Struct):
    digest: str
    queries: dict[str, str]


class Translations:
    """Queries in DuckDB's dialect, by their texts in Spark's, in which large numbers such as times do not matter."""

    def __init__(self, path: Path | None = None) -> None:
        directory = cache_directory()
        if path is None and directory is not None:
            path = directory / f"queries-{_fingerprint()}.json"
        self._path = path
        self._kept: dict[str, str] = {}
        self._used: dict[str, str] = {}
        if path is not None:
            with suppress(OSError, msgspec.DecodeError):
                found = msgspec.json.decode(path.read_bytes(), type=_File)
                if found.digest == _digest(found.queries):
                    self._kept = found.queries

    def of(self, text: str) -> str:
        """Return a query of Spark's in DuckDB's dialect."""
        numbers = [each.rstrip("L") for each in _NUMBER.findall(text)]
        places = iter(range(len(numbers)))
        general = _NUMBER.sub(lambda _: f"__number_{next(places)}__", text)
        found = self._used.get(general) or self._kept.get(general)
        if found is None:
            from amqproxy.pipeline.duck.dialect import duckdb_text

            found = duckdb_text(general)
        self._used[general] = found
        return _PLACE.sub(lambda place: numbers[int(place[1])], found)

    def keep(self) -> None:
        """Write the file, if it lacks any query of this process."""
        if self._path is None or self._used.keys() <= self._kept.keys():
            return
        others = {text: found for text, found in self._kept.items() if text not in self._used}
        kept = dict([*self._used.items(), *others.items()][:MOST])
        temporary = self._path.with_suffix(f".{os.getpid()}")
        with suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            temporary.write_bytes(msgspec.json.encode(_File(_digest(kept), kept)))
            temporary.replace(self._path)


def _digest(queries: dict[str, str]) -> str:
    return blake2b(msgspec.json.encode(queries), digest_size=16).hexdigest()


def _fingerprint() -> str:
    """Return a digest of the translator."""
    parts = Path(__file__).with_name("dialect.py").read_bytes(), version("sqlglot").encode()
    return blake2b(b"\n".join(parts), digest_size=6).hexdigest()
