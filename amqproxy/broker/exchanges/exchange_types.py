"""Exchange types by the names that exchange.declare uses."""

from collections.abc import Collection

from amqproxy.broker.exchanges.consistent_hash import ConsistentHashExchange
from amqproxy.broker.exchanges.delayed import DelayedMessageExchange
from amqproxy.broker.exchanges.direct import DirectExchange
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.exchanges.fanout import FanoutExchange
from amqproxy.broker.exchanges.headers import HeadersExchange
from amqproxy.broker.exchanges.topic import TopicExchange

EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    cls.type: cls
    for cls in (
        DirectExchange,
        FanoutExchange,
        TopicExchange,
        HeadersExchange,
        ConsistentHashExchange,
        DelayedMessageExchange,
    )
}
DelayedMessageExchange.types = EXCHANGE_TYPES

PLUGINS = {
    "rabbitmq_consistent_hash_exchange": ConsistentHashExchange.type,
    "rabbitmq_delayed_message_exchange": DelayedMessageExchange.type,
}
"""Exchange types of RabbitMQ plugins, none of which RabbitMQ enables by default."""


def types_with(plugins: Collection[str]) -> dict[str, type[Exchange]]:
    """Return RabbitMQ's built-in exchange types and those of these plugins."""
    left_out = {type_ for plugin, type_ in PLUGINS.items() if plugin not in plugins}
    return {name: cls for name, cls in EXCHANGE_TYPES.items() if name not in left_out}
