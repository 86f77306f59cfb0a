"""The types of exchange; `EXCHANGE_TYPES` is how exchange.declare finds them."""

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
