"""Input that breaks the rules: what RabbitMQ answers, and that the proxy answers the same or better."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from amqproxy.rabbitmq.profile import HEADER_0_9_1
from tests.real.malformed import BETTER, FOREIGN, LATER, MALFORMED, WORKERS, Answers, Case, asked
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


def expected(case: Case, rabbitmq: RabbitMQ) -> str:
    """The answer of this version of RabbitMQ."""
    return LATER[rabbitmq.profile.name].get(case.name, case.rabbitmq)


EARLIER = {"content: body larger than announced, then a method": "505"}
"""What the proxy may answer before RabbitMQ does: it takes the long body, as 3.10 does, but not what follows it."""


@pytest.mark.once
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_rabbitmq_answers(case: Case, rabbitmq: RabbitMQ, from_rabbitmq: Answers) -> None:
    answer = from_rabbitmq[case.name].result()
    assert answer.summary == expected(case, rabbitmq), answer
    if answer.kind == "header":
        is_almost_ours = case.data[:7] == HEADER_0_9_1[:7]
        assert answer.text == (HEADER_0_9_1 if is_almost_ours else rabbitmq.profile.foreign_answer).hex(" ")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_proxy_answers(case: Case, rabbitmq: RabbitMQ, from_proxy: Answers) -> None:
    """It passes on RabbitMQ's answer to another version of AMQP, and answers other protocols itself."""
    answer = from_proxy[case.name].result()
    as_rabbitmq = BETTER.get(case.name, expected(case, rabbitmq))
    assert answer.summary in (as_rabbitmq, EARLIER.get(case.name)), answer
    if answer.kind == "header":
        assert answer.text in (rabbitmq.profile.foreign_answer.hex(" "), HEADER_0_9_1.hex(" "))


@pytest.mark.parametrize(
    "case", [case for case in CASES.values() if case.name not in BETTER], ids=lambda case: case.name
)
def test_the_proxy_words_its_close_as_rabbitmq_does(case: Case, from_rabbitmq: Answers, from_proxy: Answers) -> None:
    theirs, ours = from_rabbitmq[case.name].result(), from_proxy[case.name].result()
    if theirs.code and (ours.summary == theirs.summary or ours.summary != EARLIER.get(case.name)):
        assert ours == theirs


def test_nothing_ends_in_a_traceback(proxy: Proxy, from_proxy: Answers) -> None:
    for answer in from_proxy.values():
        answer.result()
    assert "Traceback" not in proxy.log
