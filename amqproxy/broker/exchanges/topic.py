"""topic: the binding's words match the key's; `*` is one word, `#` any number. Section 3.1.3.3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from amqproxy.broker.exchanges.exchange import Binding, Destinations, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.access.users import User
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue


class _Node:
    """Node of one word in the tree of patterns."""

    __slots__ = ("children", "destinations")

    def __init__(self) -> None:
        self.children: dict[str, _Node] = {}
        self.destinations = Destinations()


class TopicExchange(Exchange):
    """Topic exchange with its patterns in a tree of words, so that a match takes steps of the key's length."""

    type = "topic"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._root = _Node()

    def check_topic(self, user: User, vhost: str, operation: str, routing_key: str) -> None:
        user.check_topic(vhost, operation, self.name, routing_key)

    def added(self, binding: Binding) -> None:
        node = self._root
        for word in words_of(binding.routing_key):
            node = node.children.setdefault(word, _Node())
        node.destinations.add(binding.destination)

    def removed(self, binding: Binding) -> None:
        path = [self._root]
        words = words_of(binding.routing_key)
        for word in words:
            path.append(path[-1].children[word])
        path[-1].destinations.drop(binding.destination)
        for parent, word in zip(path[-2::-1], words[::-1], strict=True):
            child = parent.children[word]
            if child.children or child.destinations:
                break
            del parent.children[word]

    def route(self, routing_key: str, message: Message) -> Iterable[Queue | Exchange]:
        words = words_of(routing_key)
        # A place is a node with a bit set of the possible numbers of consumed words (bit n: n words). So each node is
        # visited once; otherwise a pattern with several `#` would be walked once per distribution of words among them.
        every = (2 << len(words)) - 1
        steps: dict[str, int] = {}  # by pattern word, the bit set of possible numbers of words consumed after it
        for position, word in enumerate(words):
            steps[word] = steps.get(word, 0) | 2 << position
        steps["*"] = every - 1
        steps.pop("#", None)
        found: list[Queue | Exchange] = []
        places = [(self._root, 1)]
        self.visited = 0
        while places:
            node, behind = places.pop()
            if behind > every >> 1:
                found += node.destinations
            rest = node.children.get("#")
            if rest is not None:
                fewest = behind & -behind
                places.append((rest, every & -fewest))
            common = node.children.keys() & steps.keys()
            self.visited += 1 + len(common)
            for word in common:
                if after := behind << 1 & steps[word]:
                    places.append((node.children[word], after))
        return found


def words_of(key: str) -> list[str]:
    """Split a key into words; an empty key has none, and a word before, between or after dots may be empty."""
    return key.split(".") if key else []
