"""Spark session of the pipeline: quiet, on loopback unless there is a cluster, and quick to start.

Starting the JVM dominates a short job. A class-data archive of Spark's classes, which the first JVM writes to the
user's cache directory at its end, makes the start two to three times as fast; the JVM ignores an archive that does not
fit.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any

from amqproxy.pipeline import shipping
from amqproxy.pipeline.cache_directory import cache_directory

try:
    import pyspark
    from py4j.protocol import Py4JJavaError
    from pyspark import SparkConf, SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession
except ImportError as missing:
    raise ImportError(
        "The pipeline needs PySpark, which is not installed: pip install 'amqproxy[pipeline]'", name="pyspark"
    ) from missing

LOCAL = "local[*]"
"""Local Spark master, with all cores."""

OLDEST_JAVA = 17

NO_JAVA = (
    "Spark needs Java 17 or newer, and {found}. On Debian: apt-get install openjdk-17-jre-headless; "
    "elsewhere set JAVA_HOME to where one is installed"
)

_MAKING = "-XX:ArchiveClassesAtExit"
"""JVM option that writes an archive."""

_DYNAMIC_ARCHIVE = bytes.fromhex("a8ab0bf0")
"""Magic number of an archive on a little-endian machine; the JVM writes it last, so that an incomplete one lacks it."""

_DUMP_LIMIT = 600
"""Age in seconds from which an incomplete archive counts as abandoned."""

MEMORY = "SPARK_DRIVER_MEMORY"
"""Spark's variable for the memory of its JVM, such as 8g; the default is a quarter of the machine's memory."""

_END_LIMIT = 5.0
"""Time limit in seconds for the end of a JVM, after which it is killed."""

_ARCHIVE_LIMIT = 60.0
"""Time limit in seconds for a JVM that writes the archive at its end."""


class SparkUnavailable(Exception):
    """Raised if Spark does not start, with the remedy."""


def session(
    master: str | None = LOCAL,
    *,
    name: str = "amqproxy",
    conf: Mapping[str, str] | None = None,
    has_ui: bool = False,
    is_archived: bool = True,
) -> SparkSession:
    """Return a session, the active one if there is one; raise `SparkUnavailable`.

    `master` `None` is the master of spark-submit; `conf` overrides the settings here. `is_archived` selects whether a
    class-data archive is used, and written if missing.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if is_local(master):  # a container's host name may have no address
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    settings = SparkConf()
    is_archived = is_archived and not is_submitted()
    settings.setAll([*_settings(master, name, has_ui=has_ui, is_archived=is_archived).items(), *(conf or {}).items()])
    if SparkContext._gateway is not None or is_submitted():
        return SparkSession.builder.config(conf=settings).getOrCreate()
    gateway, notices = _started(settings)
    makes_archive = _MAKING in (settings.get("spark.driver.extraJavaOptions") or "")
    gateway.end_limit = _ARCHIVE_LIMIT if makes_archive else _END_LIMIT
    try:
        spark = SparkSession(SparkContext(gateway=gateway, conf=settings))
    except Py4JJavaError as error:
        text = str(error.java_exception.getMessage()).partition("\n")[0]
        _end_jvm()
        raise SparkUnavailable(f"Spark did not start: {text}") from None
    notices.pass_on()
    return spark


def stop(spark: SparkSession) -> None:
    """Stop the session and end its JVM, so that nothing of it remains in a process that continues."""
    spark.stop()
    _end_jvm()


def _end_jvm() -> None:
    """End the JVM of this process, and wait for its end: in a container, nothing outlives this process."""
    gateway = SparkContext._gateway
    if gateway is None or (process := getattr(gateway, "proc", None)) is None:
        return
    gateway.shutdown()
    process.stdin.close()  # ends the JVM, perhaps after it has written the archive
    SparkContext._gateway = SparkContext._jvm = None
    try:
        process.wait(gateway.end_limit)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def is_running() -> bool:
    """Whether this process already has a session."""
    return SparkSession.getActiveSession() is not None


def is_submitted() -> bool:
    """Whether spark-submit started this process: its JVM is running already, and its PySpark is in an archive."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def is_local(master: str | None) -> bool:
    """Whether all processes of the job are on this machine."""
    return master is not None and master.startswith("local")


def has_executors(master: str | None) -> bool:
    """Whether executors need the package shipped; Kubernetes executors have it in their image."""
    return master is not None and (master.startswith("local-cluster") or not master.startswith(("local", "k8s:")))


def java() -> Path | None:
    """Return the `java` that Spark's scripts run."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")
    return Path(found).resolve() if found else None


def why_no_java() -> str | None:
    """Return the problem with the installed Java, and the remedy; `None` if it is new enough."""
    program = java()
    if program is None:
        home = os.environ.get("JAVA_HOME")
        return NO_JAVA.format(found=f"there is none in JAVA_HOME={home}" if home else "there is no `java` in PATH")
    output = subprocess.run([program, "-version"], capture_output=True, text=True, check=False).stderr
    version = output.partition('version "')[2].partition('"')[0]
    major = version.split(".")[0].partition("-")[0]
    if major.isdigit() and int(major) < OLDEST_JAVA:
        return NO_JAVA.format(found=f"{program} is version {version}")
    return None


# --- settings


def _settings(master: str | None, name: str, *, has_ui: bool, is_archived: bool) -> dict[str, str]:
    settings = {
        "spark.app.name": name,
        "spark.ui.enabled": str(has_ui).lower(),
        "spark.ui.showConsoleProgress": "false",  # the command line has its own, which restores the terminal
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.adaptive.maxShuffledHashJoinLocalMapThreshold": "64m",  # joins without sorts
        # Settling has 150 generated classes; with Spark's default of 100, each batch would compile all of them again.
        "spark.sql.codegen.cache.maxEntries": "2000",
        # Tracking the Python position of each expression would dominate a small query.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.log.level": "WARN",
    }
    if master is not None:
        settings["spark.master"] = master
    if has_executors(master):
        settings |= shipping.settings()
    if is_local(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
            "spark.log.level": "OFF",  # failures are raised here, with their cause
        }
        if not os.environ.get(MEMORY):
            settings["spark.driver.memory"] = f"{_quarter_of_memory()}m"
    options = _archive_options() if is_archived else []
    if options:
        settings["spark.driver.extraJavaOptions"] = " ".join(options)
    return settings


def _quarter_of_memory() -> int:
    """Return a quarter of the memory in MiB, like the JVM's default, but at least Spark's own default."""
    memory: int = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1024, memory // 4 // 2**20)


# --- the class-data archive


def _archive_options() -> list[str]:
    """Return the JVM options that use the archive, or write it at the end; empty if neither is possible."""
    program = java()
    directory = cache_directory()
    if program is None or directory is None or _has_configuration_files():
        return []
    archive = directory / f"spark-{_fingerprint(program)}.jsa"
    quiet = ["-Xlog:cds=off", "-Xlog:cds+dynamic=off", "-Xshare:auto"]
    if _is_complete(archive):
        return [f"-XX:SharedArchiveFile={archive}", *quiet]
    claim = archive.with_suffix(".making")
    try:
        archive.parent.mkdir(parents=True, exist_ok=True)
        if claim.exists() and time.time() - claim.stat().st_mtime > _DUMP_LIMIT:
            claim.unlink(missing_ok=True)
        claim.touch(exist_ok=False)  # one process writes it: it costs seconds and 170 MB
    except OSError:
        return []
    return [f"{_MAKING}={archive}", *quiet]


def _has_configuration_files() -> bool:
    """Return whether Spark's launcher puts a directory with files on the class path.

    A JVM archives no classes then, and ends with an error on stderr instead (JDK 17, "non-empty directory in paths").
    """
    home = os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent
    places = [os.environ.get("SPARK_CONF_DIR") or Path(home) / "conf"]
    places += filter(None, map(os.environ.get, ("HADOOP_CONF_DIR", "YARN_CONF_DIR")))
    return any(place.is_dir() and any(place.iterdir()) for place in map(Path, places))


def _is_complete(archive: Path) -> bool:
    try:
        with archive.open("rb") as file:
            return file.read(4) == _DYNAMIC_ARCHIVE
    except OSError:
        return False


def _fingerprint(program: Path) -> str:
    """Return a digest of everything that the archive depends on: this JVM, and these jars at their path."""
    jars = Path(pyspark.__file__).parent / "jars"
    parts = [program, program.stat().st_mtime_ns, jars, jars.stat().st_mtime_ns, pyspark.__version__]
    return hashlib.blake2b("\n".join(map(str, parts)).encode(), digest_size=6).hexdigest()


# --- the start


def _started(settings: SparkConf) -> tuple[Any, _Notices]:
    """Return the gateway to a new JVM, and its standard error output; standard output carries only data."""
    if java() is None:
        raise SparkUnavailable(why_no_java())
    reader, writer = os.pipe()
    notices = _Notices(os.fdopen(reader, "rb", buffering=0))
    try:
        with os.fdopen(writer, "wb") as output:
            launch: Callable[..., Any] = launch_gateway
            return launch(settings, {"stdout": output, "stderr": output}), notices
    except PySparkRuntimeError as error:
        text = why_no_java() or f"Spark did not start: {notices.reason() or error}"
        raise SparkUnavailable(text) from None


class _Notices:
    """Standard error output of a JVM: kept while it starts, passed on afterwards."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._kept = bytearray()
        self._is_passed_on = False
        self._thread = threading.Thread(target=self._pump, name="spark-stderr", daemon=True)
        self._thread.start()

    def pass_on(self) -> None:
        """Note a successful start, and discard the kept output."""
        self._is_passed_on = True
        self._kept.clear()

    def reason(self) -> str:
        """Return the reason of the JVM's end: the exception that it wrote, or else its last line."""
        self._thread.join(5)
        lines = self._kept.decode(errors="replace").strip().splitlines()
        raised = [line.rpartition("Exception: ")[2] for line in lines if "Exception: " in line]
        return (raised or lines or [""])[-1].strip()

    def _pump(self) -> None:
        with self._source as source:
            while chunk := source.read(65536):
                if self._is_passed_on:
                    sys.stderr.buffer.write(chunk)
                    sys.stderr.flush()
                elif len(self._kept) < 2**20:
                    self._kept += chunk
