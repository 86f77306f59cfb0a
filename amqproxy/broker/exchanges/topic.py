"""topic: the binding's words match the key's; `*` is one word, `#` any number. Section 3.1.3.3."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from amqproxy.broker.exchanges.exchange import Binding, Destinations, Exchange

if TYPE_CHECKING:
    from amqproxy.broker.message import Message
    from amqproxy.broker.queues.queue import Queue


class _Node:
    """One word's place in the tree of patterns. `takes_any` is whether that word is `#`."""

    __slots__ = ("children", "destinations", "takes_any")

    def __init__(self, takes_any: bool = False) -> None:
        self.takes_any = takes_any
        self.children: dict[str, _Node] = {}
        self.destinations = Destinations()


class TopicExchange(Exchange):
    """Patterns lie in a tree by their words, so that a key is matched in steps of its own length."""

    type = "topic"

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._root = _Node()

    def added(self, binding: Binding) -> None:
        node = self._root
        for word in words_of(binding.routing_key):
            node = node.children.setdefault(word, _Node(word == "#"))
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
        found: list[Queue | Exchange] = []
        # A place is a node and how many words of the key are behind it. Each is visited once, or a pattern with many
        # `#` would be walked in as many ways as they can share the words among them.
        places = [(self._root, 0)]
        seen = set()
        while places:
            place = places.pop()
            node, position = place
            if (id(node), position) in seen:
                continue
            seen.add((id(node), position))
            rest = node.children.get("#")
            if rest is not None:
                places.append((rest, position))
            if position == len(words):
                found += node.destinations
                continue
            if node.takes_any:
                places.append((node, position + 1))
            for word in {words[position], "*"}:
                child = node.children.get(word)
                if child is not None and word != "#":
                    places.append((child, position + 1))
        return found


def words_of(key: str) -> list[str]:
    """An empty key has no words; between, before and after dots there is always one, which may be empty."""
    return key.split(".") if key else []
