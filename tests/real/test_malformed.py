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

BETTER = {
    # RabbitMQ still takes these two and speaks 0-9-1.
    "AMQP 0-8": "header",
    "AMQP 0-9": "header",
    # RabbitMQ's reader crashes, and the client is left to guess.
    "method: unknown class 99": "503",
    "method: unknown class 99 on channel 0": "503",
    "method: unknown method basic.99": "503",
    "arguments: table shorter than its entry": "501",
    "arguments: table with half an entry": "501",
    "arguments: table of an unknown type z": "502",
    "arguments: table with an array that overruns": "501",
    # RabbitMQ takes it for the start of a publish.
    "method: one only a server sends (basic.deliver)": "503",
    # RabbitMQ waits for the rest of a body that is already too long.
    "content: body larger than announced": "501",
    "content: body larger than announced, then a method": "501",
    # A limit of ours.
    "arguments: table nested 200 deep": "502",
    "arguments: table nested 5000 deep": "502",
}
"""Where the proxy answers otherwise than RabbitMQ, and means to."""


def asked(port: int, pool: ThreadPoolExecutor) -> Answers:
    """Every case under way at once, those first that the server lets wait."""
    cases = sorted(CASES.values(), key=lambda case: case.after not in ("start", "tune"))
    return {case.name: pool.submit(ask, port, case) for case in cases}


@pytest.fixture(scope="module")
def proxy(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    started = Proxy(tmp_path_factory.mktemp("proxy"), rabbitmq.port)
    yield started
    started.kill()


@pytest.fixture(scope="module")
def answers(rabbitmq: RabbitMQ, proxy: Proxy) -> Iterator[tuple[Answers, Answers]]:
    """RabbitMQ's and the proxy's."""
    with ThreadPoolExecutor(WORKERS) as one, ThreadPoolExecutor(WORKERS) as other:
        yield asked(rabbitmq.port, one), asked(proxy.port, other)


@pytest.fixture(scope="module")
def from_rabbitmq(answers: tuple[Answers, Answers]) -> Answers:
    return answers[0]


@pytest.fixture(scope="module")
def from_proxy(answers: tuple[Answers, Answers]) -> Answers:
    return answers[1]


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
