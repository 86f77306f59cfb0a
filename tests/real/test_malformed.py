"""Input that breaks the rules: what RabbitMQ answers, and that the proxy answers the same or better."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.real.malformed import BETTER, FOREIGN, MALFORMED, WORKERS, Answers, Case, asked
from tests.real.proxy import Proxy
from tests.real.rabbitmq import RabbitMQ

pytestmark = pytest.mark.real

CASES = {case.name: case for case in FOREIGN + MALFORMED}


@pytest.fixture(scope="module")
def proxy(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    started = Proxy(tmp_path_factory.mktemp("proxy"), rabbitmq.port)
    yield started
    started.kill()


@pytest.fixture(scope="module")
def answers(rabbitmq: RabbitMQ, proxy: Proxy) -> Iterator[tuple[Answers, Answers]]:
    """RabbitMQ's and the proxy's."""
    with ThreadPoolExecutor(WORKERS) as one, ThreadPoolExecutor(WORKERS) as other:
        yield asked(rabbitmq.port, one, CASES.values()), asked(proxy.port, other, CASES.values())


@pytest.fixture(scope="module")
def from_rabbitmq(answers: tuple[Answers, Answers]) -> Answers:
    return answers[0]


@pytest.fixture(scope="module")
def from_proxy(answers: tuple[Answers, Answers]) -> Answers:
    return answers[1]


@pytest.mark.once
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rabbitmq_answers(case: Case, from_rabbitmq: Answers) -> None:
    assert from_rabbitmq[case.name].result().summary == case.rabbitmq


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_proxy_answers(case: Case, from_proxy: Answers) -> None:
    answer = from_proxy[case.name].result()
    assert answer.summary == BETTER.get(case.name, case.rabbitmq), answer


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.name not in BETTER], ids=lambda case: case.name
)
def test_the_proxy_words_its_close_as_rabbitmq_does(case: Case, from_rabbitmq: Answers, from_proxy: Answers) -> None:
    theirs, ours = from_rabbitmq[case.name].result(), from_proxy[case.name].result()
    if theirs.code:
        assert ours == theirs


def test_nothing_ends_in_a_traceback(proxy: Proxy, from_proxy: Answers) -> None:
    for answer in from_proxy.values():
        answer.result()
    assert "Traceback" not in proxy.log
