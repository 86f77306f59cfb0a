"""The CPU time of a thread."""

import sys
import threading
import time

import pytest

from amqproxy.app.thread_time import own_thread_time


@pytest.mark.skipif(sys.platform != "linux", reason="another system has the time of the process")
def test_another_thread_sees_it_and_not_its_own() -> None:
    used = own_thread_time()
    seen: list[float] = []

    def work() -> None:
        before, begin = used(), time.thread_time()
        while time.thread_time() < begin + 0.05:
            pass
        seen.append(used() - before)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert 0 <= seen[0] < 0.05
    assert used() <= time.thread_time()


def test_elsewhere_it_is_that_of_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    assert own_thread_time() is time.process_time
