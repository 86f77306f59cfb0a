"""Its tests: `pip install "amqproxy[pytest]" pika`, then `pytest`. There is no broker to start."""

from collections.abc import Iterator

import pytest
from orders import NotPlaced, Shop

from amqproxy.testing import LocalBroker, LocalProxy

ORDER = {"number": 7, "count": 3, "price": 5}


@pytest.fixture
def shop(amqp_proxy: LocalProxy) -> Iterator[Shop]:
    shop = Shop(amqp_proxy.url)
    yield shop
    shop.close()


def test_an_order_is_placed(shop: Shop, amqp_proxy: LocalProxy) -> None:
    shop.place(ORDER)
    (placed,) = amqp_proxy.wait_for("routing_key == 'orders' && json.number == 7")
    assert placed.properties == {"content_type": "application/json", "delivery_mode": 2}
    amqp_proxy.assert_all_confirmed()


def test_an_order_is_acknowledged_after_its_invoice_is_confirmed(shop: Shop, amqp_proxy: LocalProxy) -> None:
    shop.place(ORDER)
    shop.work()
    amqp_proxy.assert_all_acked()
    (order,) = amqp_proxy.messages.where("queue == 'orders'", type="get")
    (invoice,) = amqp_proxy.messages.where("routing_key == 'invoices' && json.total == 15", type="publish")
    assert order.seconds is not None
    assert invoice.seconds is not None
    assert invoice.ts_ns + invoice.seconds * 1e9 <= order.ts_ns + order.seconds * 1e9
    amqp_proxy.assert_no_findings("warning")


def test_an_order_that_the_broker_refuses(shop: Shop, amqp_proxy: LocalProxy) -> None:
    with amqp_proxy.fault("nack", match={"routing_key": "orders"}), pytest.raises(NotPlaced):
        shop.place(ORDER)
    shop.place(ORDER)
    assert [each.outcome for each in amqp_proxy.messages.where(type="publish")] == ["nacked", "confirmed"]


def test_a_connection_that_is_lost_is_made_again(shop: Shop, amqp_proxy: LocalProxy) -> None:
    amqp_proxy.cut()
    shop.place(ORDER)
    amqp_proxy.assert_all_confirmed()


def test_orders_outlive_a_restart_of_the_broker(shop: Shop, amqp_proxy: LocalProxy, amqp_broker: LocalBroker) -> None:
    shop.place(ORDER)
    amqp_broker.restart()
    again = Shop(amqp_proxy.url)
    again.work()
    again.close()
    amqp_proxy.wait_for("queue == 'orders'", outcome="acked")
