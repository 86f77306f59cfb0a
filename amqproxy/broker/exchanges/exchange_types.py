"""Exchange types by the names that exchange.declare uses."""

from collections.abc import Collection

from amqproxy.broker.exchanges.consistent_hash import ConsistentHashExchange
from amqproxy.broker.exchanges.delayed import DelayedMessageExchange
from amqproxy.broker.exchanges.direct import DirectExchange
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.exchanges.fanout import FanoutExchange
from amqproxy.broker.exchanges.headers import HeadersExchange, TypedHeadersExchange
from amqproxy.broker.exchanges.local_random import LocalRandomExchange
from amqproxy.broker.exchanges.modulus_hash import ModulusHashExchange
from amqproxy.broker.exchanges.topic import TopicExchange
from amqproxy.rabbitmq.profile import Profile

EXCHANGE_TYPES: dict[str, type[Exchange]] = {
    cls.type: cls
    for cls in (
        DirectExchange,
        FanoutExchange,
        TopicExchange,
        HeadersExchange,
        ConsistentHashExchange,
        DelayedMessageExchange,
        LocalRandomExchange,
        ModulusHashExchange,
    )
}
DelayedMessageExchange.types = EXCHANGE_TYPES

PLUGINS = {
    "rabbitmq_consistent_hash_exchange": ConsistentHashExchange.type,
    "rabbitmq_delayed_message_exchange": DelayedMessageExchange.type,
}
"""Exchange types of RabbitMQ plugins, none of which RabbitMQ enables by default."""


LATER = frozenset({LocalRandomExchange.type, ModulusHashExchange.type})
"""Exchange types that only later versions of RabbitMQ have."""


def types_with(plugins: Collection[str], profile: Profile) -> dict[str, type[Exchange]]:
    """Return the exchange types of a RabbitMQ version and of these plugins."""
    left_out = {type_ for plugin, type_ in PLUGINS.items() if plugin not in plugins}
    left_out |= LATER.difference(profile.exchange_types)
    found = {name: cls for name, cls in EXCHANGE_TYPES.items() if name not in left_out}
    if not profile.equates_floats:
        found[TypedHeadersExchange.type] = TypedHeadersExchange
    if DelayedMessageExchange.type in found:
        found[DelayedMessageExchange.type] = type("DelayedMessageExchange", (DelayedMessageExchange,), {"types": found})
    return found
