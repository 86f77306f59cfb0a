"""The Spark session: quiet and local, and a clear word where it cannot start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from tests.real.require import missing, require, require_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.once

START = """
from amqproxy.pipeline import session
spark = session.session("local[1]", is_archived=False)
print(spark.range(7).count(), spark.conf.get("spark.driver.host"), spark.sparkContext.uiWebUrl)
session.stop(spark)
"""


NAMELESS = ("unshare", "--uts", "--map-root-user", "sh", "-c", 'hostname nowhere.invalid && exec "$@"', "-")
"""Before a command: this machine has a name there that has no address, as in a container without a network."""


def python(code: str, before: Sequence[str] = (), **environment: str) -> subprocess.CompletedProcess[str]:
    require_module("pyspark", package="'amqproxy[pipeline]'")
    return subprocess.run(
        [*before, sys.executable, "-c", code],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_a_session_of_tests_counts(spark: SparkSession) -> None:
    assert spark.range(5).count() == 5
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


def test_starting_says_nothing_and_listens_nowhere_else(tmp_path: Path) -> None:
    java = require("java", package="openjdk-17-jre-headless")
    if subprocess.run([*NAMELESS, "true"], capture_output=True, check=False).returncode:
        missing("a kernel that lets users rename their machine", "run this test elsewhere")
    path = f"{Path(java).parent}:/usr/bin:/bin"
    ended = python(START, NAMELESS, PATH=path, XDG_CACHE_HOME=str(tmp_path), HOME=str(tmp_path))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "7 127.0.0.1 None\n", "")


def test_without_java_the_remedy_is_named(tmp_path: Path) -> None:
    ended = python(START, PATH=str(tmp_path))
    assert "there is no `java` in PATH" in ended.stderr
    assert "apt-get install openjdk-17-jre-headless" in ended.stderr


def test_an_old_java_is_told(tmp_path: Path) -> None:
    old = tmp_path / "bin" / "java"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho 'openjdk version \"11.0.20\" 2023-07-18' >&2\nexit 1\n")
    old.chmod(0o755)
    ended = python(START, JAVA_HOME=str(tmp_path), PATH="/usr/bin:/bin", XDG_CACHE_HOME=str(tmp_path))
    assert "SparkUnavailable: Spark needs Java 17 or newer" in ended.stderr
    assert "is version 11.0.20" in ended.stderr


def test_what_spark_submit_started_has_its_jvm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PySpark is in an archive then, beside which there are no jars to make anything of."""
    pyspark = require_module("pyspark", package="'amqproxy[pipeline]'")
    from amqproxy.pipeline import session

    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    monkeypatch.setattr(pyspark, "__file__", str(tmp_path / "pyspark.zip" / "pyspark" / "__init__.py"))
    monkeypatch.setattr(session.SparkSession.Builder, "getOrCreate", lambda builder: builder._options)
    # Not what is set of the session that other tests may have in this process.
    monkeypatch.setattr(session, "SparkConf", partial(session.SparkConf, loadDefaults=False))
    settings = session.session(None)
    assert "spark.driver.extraJavaOptions" not in settings  # type: ignore[operator]
    assert "spark.master" not in settings  # type: ignore[operator]


def test_memory_is_a_quarter_of_the_machine_or_what_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    require_module("pyspark", package="'amqproxy[pipeline]'")
    from amqproxy.pipeline import session

    def memory() -> str | None:
        return session._settings("local[*]", "x", has_ui=False, is_archived=False).get("spark.driver.memory")

    monkeypatch.delenv(session.MEMORY, raising=False)
    assert memory() == f"{session._quarter_of_memory()}m"
    monkeypatch.setenv(session.MEMORY, "2g")
    assert memory() is None, "Spark takes it from there"


def test_of_what_the_jvm_writes_the_exception_is_told(tmp_path: Path) -> None:
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    lines = (
        'Exception in thread "main" org.apache.spark.SparkException: Master must be one',
        "\tat org.apache.spark.X.y(X:1)",
    )
    java.write_text("#!/bin/sh\n" + "".join(f"echo '{line}' >&2\n" for line in lines) + "exit 1\n")
    java.chmod(0o755)
    ended = python(START, JAVA_HOME=str(tmp_path), PATH="/usr/bin:/bin", XDG_CACHE_HOME=str(tmp_path))
    assert "SparkUnavailable: Spark did not start: Master must be one\n" in ended.stderr


def test_one_process_makes_the_archive_which_the_others_use_when_it_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("java", package="openjdk-17-jre-headless")
    from amqproxy.pipeline import session

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first, second = session._archive_options(), session._archive_options()
    assert first[0].startswith(f"-XX:ArchiveClassesAtExit={tmp_path}/amqproxy/spark-")
    assert second == []
    archive = Path(first[0].partition("=")[2])
    archive.write_bytes(bytes(100))
    assert session._archive_options() == []
    archive.write_bytes(bytes.fromhex("a8ab0bf0") + bytes(100))
    assert session._archive_options()[0] == f"-XX:SharedArchiveFile={archive}"


@pytest.mark.parametrize("name", ["SPARK_CONF_DIR", "HADOOP_CONF_DIR"])
def test_beside_configuration_files_no_archive_is_written(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM that should archive its classes would end with "Cannot have non-empty directory in paths"."""
    require("java", package="openjdk-17-jre-headless")
    from amqproxy.pipeline import session

    directory = tmp_path / "conf"
    directory.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(name, str(directory))
    (directory / "spark-defaults.conf").touch()
    assert session._archive_options() == []
    (directory / "spark-defaults.conf").unlink()
    assert session._archive_options() != []


def test_without_pyspark_the_extra_is_named() -> None:
    code = "import sys; sys.modules['pyspark'] = None; import amqproxy.pipeline.session"
    assert "pip install 'amqproxy[pipeline]'" in python(code).stderr


def test_no_jvm_outlives_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first JVM of a user writes an archive of its classes when it ends."""
    require_module("pyspark", package="'amqproxy[pipeline]'")
    from amqproxy.pipeline import session

    lasting = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], stdin=subprocess.PIPE)
    gateway = SimpleNamespace(proc=lasting, shutdown=lambda: None, end_limit=0.01)
    monkeypatch.setattr(session.SparkContext, "_gateway", gateway)
    monkeypatch.setattr(session.SparkContext, "_jvm", None)
    session._end_jvm()
    assert lasting.returncode is not None
    assert session.SparkContext._gateway is None
