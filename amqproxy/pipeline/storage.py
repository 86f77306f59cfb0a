"""Locations of tables and captures: a directory, or a bucket such as `s3://traffic/tables`.

Needs pyarrow, which speaks S3 itself. Keys, region and endpoint come from the usual environment of S3 clients:
`AWS_ACCESS_KEY_ID`, `AWS_SECRET_ACCESS_KEY`, `AWS_REGION`, `AWS_ENDPOINT_URL`. Executors read them from their own
environment.
"""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

SCHEMES = ("s3://", "s3a://", "s3n://")
"""Prefixes of S3 paths; Hadoop uses `s3a` and, formerly, `s3n`."""


class Place(NamedTuple):
    """An Arrow file system, and a path in it."""

    files: FileSystem
    path: str


def is_remote(path: str) -> bool:
    """Whether the path is in a bucket, not on a disk."""
    return path.startswith(SCHEMES)


def place(path: str) -> Place:
    """Return the file system and path; raise `OSError` if it obviously cannot be reached."""
    from pyarrow.fs import LocalFileSystem, S3FileSystem

    if is_remote(path):
        region = _region(os.environ)
        files = S3FileSystem(endpoint_override=_endpoint(os.environ), **({"region": region} if region else {}))
        return Place(files, path.partition("://")[2].rstrip("/"))
    return Place(LocalFileSystem(), str(Path(path).absolute()))


def absolute(path: str) -> str:
    """Return the path as valid in any process of this machine."""
    return path if is_remote(path) else str(Path(path).absolute())


def spark_path(path: str) -> str:
    """Return the path for Spark: Hadoop's S3 client uses `s3a`."""
    return f"s3a://{path.partition('://')[2]}" if is_remote(path) else path


def _endpoint(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")


def _region(environment: Mapping[str, str]) -> str | None:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")


# --- captures


class FileState(NamedTuple):
    """State of a file."""

    size: int
    modified_ns: int


def state_of(path: str) -> FileState:
    """Return the size and modification time of a file; raise `OSError`."""
    if not is_remote(path):
        about = Path(path).stat()
        return FileState(about.st_size, about.st_mtime_ns)
    from pyarrow.fs import FileType

    where = place(path)
    found = where.files.get_file_info(where.path)
    if found.type != FileType.File:
        raise FileNotFoundError(2, "No such file", path)
    return FileState(found.size or 0, found.mtime_ns or 0)


def opened(path: str) -> io.BufferedReader:
    """Open a seekable file for reading; a file in a bucket is opened on the first read. Raise `OSError`."""
    return io.BufferedReader(_Remote(path), _READ_AHEAD) if is_remote(path) else Path(path).open("rb")


def list_remote(path: str) -> list[str]:
    """Return the files directly below a path in a bucket, or the file itself, as paths of the same kind; raise
    `OSError`.
    """
    from pyarrow.fs import FileSelector, FileType

    where = place(path)
    scheme = path.partition("://")[0]
    if where.files.get_file_info(where.path).type == FileType.File:
        return [path]
    found = where.files.get_file_info(FileSelector(where.path))
    return sorted(f"{scheme}://{each.path}" for each in found if each.type == FileType.File)


_READ_AHEAD = 8 * 1024 * 1024
"""Bytes of a request to a bucket."""


class _Remote(io.RawIOBase):
    """A file in a bucket."""

    def __init__(self, path: str) -> None:
        self.name = path
        self._file: Any = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return int(self._opened().seek(offset, whence))

    def tell(self) -> int:
        return 0 if self._file is None else int(self._file.tell())

    def readinto(self, buffer: Any) -> int:
        content = self._opened().read(len(buffer))
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
        super().close()

    def _opened(self) -> Any:
        if self._file is None:
            where = place(self.name)
            self._file = where.files.open_input_file(where.path)
        return self._file


# --- Spark


PACKAGES = (
    "org.apache.hadoop:hadoop-aws:3.5.0",
    *(f"software.amazon.awssdk:{each}:2.35.4" for each in ("s3", "s3-transfer-manager", "sts", "apache-client")),
)
"""Spark's packages for S3: Hadoop's own, and parts of Amazon's SDK, which has 700 MB as a whole."""

EXCLUDED = "software.amazon.awssdk:bundle"


def spark_settings(*paths: str, environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return Spark's settings for these paths; empty if none is in a bucket."""
    if not any(map(is_remote, paths)):
        return {}
    settings = {"spark.hadoop.mapreduce.fileoutputcommitter.algorithm.version": "2"}
    region = _region(environment)
    if endpoint := _endpoint(environment):
        settings |= {
            "spark.hadoop.fs.s3a.endpoint": endpoint,
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": str(endpoint.startswith("https:")).lower(),
        }
    if region:
        settings["spark.hadoop.fs.s3a.endpoint.region"] = region
    if not _has_jars():
        settings |= {"spark.jars.packages": ",".join(PACKAGES), "spark.jars.excludes": EXCLUDED}
    return settings


def _has_jars() -> bool:
    """Whether the jars are beside Spark's own, as in our image."""
    import pyspark

    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)  # spark-submit has PySpark in an archive
    return any((home / "jars").glob("hadoop-aws-*.jar"))
