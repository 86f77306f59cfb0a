"""Which publishes can have reached a queue."""

from __future__ import annotations

from amqproxy.linking.taking_part import is_in_transaction
from tests.linking.events import published


def test_a_publish_in_a_transaction_awaits_no_confirm() -> None:
    assert is_in_transaction(published(1, awaits=True))
    assert not is_in_transaction(published(1, awaits=True, confirm_tag=1))
    assert not is_in_transaction(published(1, awaits=False))
