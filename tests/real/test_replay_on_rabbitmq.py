"""Captures of RabbitMQ, played against RabbitMQ: the answers are the same, and so is a recording of that.

And played against RabbitMQ and our own broker, which `compare` finds to be the same.
"""

from collections.abc import Iterator

import pytest

from amqproxy.cli.compare import compare
from tests.real.own import OwnBroker
from tests.real.rabbitmq import RabbitMQ
from tests.real.recordings import reported
from tests.replay.playing import CAPTURES, WHOLE, replayed_and_recorded, texts

pytestmark = pytest.mark.real

SMALL_FRAMES = 4096


@pytest.fixture(scope="module")
def own_broker(rabbitmq: RabbitMQ, tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnBroker]:
    """Our own broker, as the RabbitMQ that it is compared with."""
    broker = OwnBroker(tmp_path_factory.mktemp("own"), "--as", rabbitmq.profile.name)
    yield broker
    broker.kill()


@pytest.mark.parametrize("name", WHOLE)
def test_the_same_again(name: str, rabbitmq: RabbitMQ) -> None:
    if name.startswith("consume-large") and rabbitmq.profile.frame_max_floor > SMALL_FRAMES:
        pytest.skip(f"its client has a frame_max of {SMALL_FRAMES}, with which this RabbitMQ cuts it off")
    result, differences = replayed_and_recorded(CAPTURES / name, rabbitmq.url)
    assert texts(result) == []
    assert result.is_same
    assert differences == []


@pytest.mark.parametrize("name", WHOLE)
def test_two_brokers_do_the_same(name: str, rabbitmq: RabbitMQ, own_broker: OwnBroker) -> None:
    own = f"amqp://guest:guest@127.0.0.1:{own_broker.port}"
    *found, summary = reported(compare, rabbitmq.url, own, replay=CAPTURES / name, json=True)  # type: ignore[arg-type]
    assert [each for each in found if each["report"] == "difference"] == []
    assert summary["is_same"]
    for each in (summary["connections"], summary["commands"]):
        assert each["a"] == each["b"] > 0
