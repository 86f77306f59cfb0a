"""One Spark session for all tests of a worker: starting one costs more than most tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.cli.conftest import amqproxy
from tests.real.require import require, require_module

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["amqproxy", "quick_spark_processes", "spark"]

QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
"""A test is over before C2 pays, and has little to collect."""

QUICK = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",  # nor compiling each query
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}


TIMEOUT = 900
"""Seconds for each test that has no limit of its own: a query takes seconds for any rows, and one that is cut off
breaks the session of all."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/pipeline/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(TIMEOUT), append=False)


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """A local session with two cores: leave its settings as you found them."""
    require_module("pyspark", package="'amqproxy[pipeline]'")
    require("java", package="openjdk-17-jre-headless")
    from amqproxy.pipeline import session

    conf = {"spark.driver.extraJavaOptions": QUICK_JAVA, **QUICK}
    spark = session.session("local[2]", name="tests", conf=conf, is_archived=False)
    yield spark
    session.stop(spark)


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest) -> Iterator[object]:
    """The session of all tests, or one of DuckDB in tests marked `both_engines` or `on_duckdb`."""
    if getattr(request, "param", "spark") == "spark":
        yield request.getfixturevalue("spark_session")
        return
    from amqproxy.pipeline.duck import DuckSession

    opened = DuckSession()
    yield opened
    opened.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "spark" not in metafunc.fixturenames:
        return
    both = metafunc.definition.get_closest_marker("both_engines")
    if both is not None:
        is_usual = both.kwargs.get("usual", True) or os.environ.get("SPARK") == "all"
        metafunc.parametrize("spark", ["duckdb", "spark"] if is_usual else ["duckdb"], indirect=True, scope="session")
    elif metafunc.definition.get_closest_marker("on_duckdb") is not None:
        metafunc.parametrize("spark", ["duckdb"], indirect=True, scope="session")


@pytest.fixture
def quick_spark_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that a test starts, and that start Spark, do so with the settings of the tests."""
    directory = tmp_path / "spark-conf"
    directory.mkdir()
    lines = (f"{name} {value}\n" for name, value in QUICK.items())
    (directory / "spark-defaults.conf").write_text("".join(lines))
    monkeypatch.setenv("SPARK_CONF_DIR", str(directory))
    monkeypatch.setenv("JDK_JAVA_OPTIONS", QUICK_JAVA)
