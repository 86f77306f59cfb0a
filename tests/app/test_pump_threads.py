"""Which config has pumps."""

import math
import os
import threading

import pytest
from structlog.testing import capture_logs

from amqproxy.app import pump_threads
from amqproxy.app.pump_threads import TEST_MODE, default_threads, open_pumps
from amqproxy.configuration.config import Config
from amqproxy.pump.pumps import are_available, may_be_idle
from amqproxy.taps.metrics import Metrics

needs_epoll = pytest.mark.skipif(not may_be_idle(), reason="an idle pump needs epoll")


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_as_many_as_are_configured() -> None:
    with open_pumps(Config(threads=2), Metrics()) as pumps:
        assert pumps is not None
        assert len(pumps._pumps) == 2


def test_none_before_the_integrated_broker() -> None:
    with capture_logs() as log, open_pumps(Config(upstream="broker"), Metrics()) as pumps:
        assert pumps is None
    assert log == []


@needs_epoll
def test_where_none_is_wanted_idle_connections_are_kept() -> None:
    metrics = Metrics()
    with capture_logs() as log, open_pumps(Config(threads=0), metrics) as pumps:
        assert pumps is not None
        assert (pumps.is_idle_only, pumps.count) == (True, 1)
        assert metrics.registry.get_sample_value("amqproxy_pump_threads") == 0
    assert log == []


def test_none_where_the_system_has_no_epoll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "may_be_idle", lambda: False)
    with capture_logs() as log, open_pumps(Config(threads=0), Metrics()) as pumps:
        assert pumps is None
    assert log == []


@pytest.mark.parametrize(("cores", "threads"), [(1, 0), (2, 1), (3, 2), (5, 4), (64, 4)])
def test_by_default_one_fewer_than_the_cores(cores: int, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "are_available", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(cores)))
    monkeypatch.setattr(pump_threads, "cpu_quota", lambda: math.inf)
    assert default_threads() == threads


def test_there_is_one_where_connections_have_to_change_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "are_available", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0})
    monkeypatch.setenv(TEST_MODE, "3")
    assert default_threads() == 1


@pytest.mark.parametrize(("quota", "threads"), [(0.25, 0), (1.0, 0), (1.9, 0), (2.0, 1), (4.5, 3), (64.0, 4)])
def test_a_limit_of_time_counts_as_cores(quota: float, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "are_available", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(pump_threads, "cpu_quota", lambda: quota)
    assert default_threads() == threads


@needs_epoll
def test_by_default_none_where_there_can_be_none_and_no_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "are_available", lambda: False)
    assert default_threads() == 0
    with capture_logs() as log, open_pumps(Config(), Metrics()) as pumps:
        assert pumps is not None
        assert pumps.is_idle_only
    assert log == []


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_there_are_as_many_as_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {0, 1, 2})
    monkeypatch.setattr(pump_threads, "cpu_quota", lambda: math.inf)
    with open_pumps(Config(), Metrics()) as pumps:
        assert pumps is not None
        assert len(pumps._pumps) == 2


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_none_where_the_system_has_no_thread_and_a_line_says_so() -> None:
    before = threading.stack_size(1 << 46)  # more than there are addresses
    try:
        with capture_logs() as log, open_pumps(Config(threads=1), Metrics()) as pumps:
            assert pumps is not None
            assert pumps.is_idle_only
    finally:
        threading.stack_size(before)
    assert [line["event"] for line in log] == ["a pump less"]


@needs_epoll
def test_none_where_they_cannot_be_and_a_line_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pump_threads, "are_available", lambda: False)
    with capture_logs() as log, open_pumps(Config(threads=2), Metrics()) as pumps:
        assert pumps is not None
        assert pumps.is_idle_only
    assert [line["event"] for line in log] == ["no pumps"]


@pytest.mark.skipif(not are_available(), reason="a plain run has no pump: it is compiled")
def test_connections_change_owner_all_the_time_where_a_test_wants_that(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(pump_threads.TEST_MODE, "5")
    with open_pumps(Config(threads=1), Metrics()) as pumps:
        assert pumps is not None
        assert (pumps.first_chunks, pumps.most_chunks) == (1, 1)
