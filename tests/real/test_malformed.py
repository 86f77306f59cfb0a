"""Input that breaks the rules: what RabbitMQ answers, and that the proxy answers the same or better."""

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from tests.real.malformed import FOREIGN, MALFORMED, Answer, Case, ask
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real

CASES = {case.name: case for case in FOREIGN + MALFORMED}
WORKERS = 12
"""Cases asked at once: RabbitMQ waits three seconds before it closes a bad handshake."""

Answers = dict[str, Future[Answer]]

BETTER: dict[str, str] = {}
"""Where the proxy answers otherwise than RabbitMQ, and means to."""


def asked(port: int, pool: ThreadPoolExecutor) -> Answers:
    """Every case under way at once; the last ones are asked first, for they wait the longest."""
    return {name: pool.submit(ask, port, case) for name, case in CASES.items()}


@pytest.fixture(scope="module")
def from_rabbitmq(rabbitmq: RabbitMQ) -> Iterator[Answers]:
    with ThreadPoolExecutor(WORKERS) as pool:
        yield asked(rabbitmq.port, pool)


@pytest.fixture(scope="module")
def proxy(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    started = Proxy(tmp_path_factory.mktemp("proxy"), rabbitmq.port)
    yield started
    started.kill()


@pytest.fixture(scope="module")
def from_proxy(proxy: Proxy) -> Iterator[Answers]:
    with ThreadPoolExecutor(WORKERS) as pool:
        yield asked(proxy.port, pool)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rabbitmq_answers(case: Case, from_rabbitmq: Answers) -> None:
    assert from_rabbitmq[case.name].result().summary == case.rabbitmq


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_proxy_answers(case: Case, from_proxy: Answers) -> None:
    answer = from_proxy[case.name].result()
    assert answer.summary == BETTER.get(case.name, case.rabbitmq), answer


def test_nothing_ends_in_a_traceback(proxy: Proxy, from_proxy: Answers) -> None:
    for answer in from_proxy.values():
        answer.result()
    assert "Traceback" not in proxy.log
