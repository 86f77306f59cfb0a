"""The exchange types, one a file; `TYPES` is how exchange.declare finds them."""

from amqproxy.broker.exchanges.consistent_hash import ConsistentHash
from amqproxy.broker.exchanges.delayed import Delayed
from amqproxy.broker.exchanges.direct import Direct
from amqproxy.broker.exchanges.exchange import Exchange
from amqproxy.broker.exchanges.fanout import Fanout
from amqproxy.broker.exchanges.headers import Headers
from amqproxy.broker.exchanges.topic import Topic

TYPES: dict[str, type[Exchange]] = {cls.type: cls for cls in (Direct, Fanout, Topic, Headers, ConsistentHash, Delayed)}
Delayed.types = TYPES
