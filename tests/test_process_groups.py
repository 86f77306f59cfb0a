"""Files whose tests share the Spark session are one to xdist, and so are behaviours of a later RabbitMQ."""

from pathlib import Path

import pytest

from tests.process_groups import ROOT, group_of, scheduling, shares_spark

TESTS = Path("tests", "pipeline")


@pytest.mark.parametrize("name", ["test_settle.py", "test_jobs.py", "questions/test_on_spark.py"])
def test_a_file_with_the_session_shares_it(name: str) -> None:
    assert shares_spark(ROOT / TESTS / name)


@pytest.mark.parametrize("name", ["pipeline/test_live.py", "pipeline/test_event_rows.py", "test_process_groups.py"])
def test_a_file_without_it_does_not(name: str) -> None:
    assert not shares_spark(ROOT / "tests" / name)


def test_files_are_given_to_processes_whole_and_those_with_spark_to_one() -> None:
    assert group_of(f"{TESTS}/test_settle.py") == group_of(f"{TESTS}/test_jobs.py")
    assert group_of(f"{TESTS}/test_live.py") == f"{TESTS}/test_live.py"


def test_each_later_rabbitmq_is_given_to_one_process() -> None:
    assert group_of("tests/behaviours/test_acks.py::test_ack[rabbitmq-4.3-x]") == "rabbitmq-4.3"
    assert group_of("tests/behaviours/test_tx.py::test_commit[rabbitmq-4.3]") == "rabbitmq-4.3"
    assert group_of("tests/behaviours/test_tx.py::test_commit[rabbitmq-4.0]") == "rabbitmq-4.0"
    assert group_of("tests/behaviours/test_tx.py::test_commit[rabbitmq-3.10]") == "tests/behaviours/test_tx.py"
    assert group_of("tests/behaviours/test_tx.py::test_commit[amqproxy-4.3]") == "tests/behaviours/test_tx.py"


def test_other_ways_to_divide_tests_are_xdist_s_own(pytestconfig: pytest.Config) -> None:
    if pytestconfig.getoption("dist", "no") != "loadfile":
        assert scheduling(pytestconfig, None) is None
