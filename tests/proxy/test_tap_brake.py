"""The brake: while it is on, nothing is relayed, and afterwards nothing is missing."""

from amqproxy.proxy.tap_brake import TapBrake
from tests.proxy.stage import OPEN, staged


async def test_nothing_is_taken_while_it_is_on_and_nothing_is_lost() -> None:
    brake = TapBrake()
    async with staged(OPEN, brake=brake) as stage:
        brake.pull()
        stage.client.perform("1: tx.commit, 1: tx.commit")
        stage.broker.perform("heartbeat")
        assert await stage.client.sees() == "nothing"
        assert await stage.broker.sees() == "nothing"
        brake.release()
        assert await stage.broker.sees() == "1: tx.commit, 1: tx.commit"
        assert await stage.client.sees() == "heartbeat"


async def test_only_the_sessions_that_it_holds_wait() -> None:
    brake = TapBrake()
    async with staged(OPEN, brake=brake) as stage:
        brake.pull(stage.session.number + 1)
        stage.client.perform("1: tx.commit")
        assert await stage.broker.sees() == "1: tx.commit"
        brake.pull(stage.session.number)
        stage.client.perform("1: tx.commit")
        assert await stage.broker.sees() == "nothing"
        brake.release()
        assert await stage.broker.sees() == "1: tx.commit"
