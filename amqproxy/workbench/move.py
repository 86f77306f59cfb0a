"""Publishes messages at another place, before they are acknowledged where they were."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from amqproxy.amqp091.properties import Properties
from amqproxy.workbench.batch_failure import BatchFailure
from amqproxy.workbench.confirming_publisher import ConfirmingPublisher
from amqproxy.workbench.destination import Destination, NoPlace
from amqproxy.workbench.held_message import HeldMessage
from amqproxy.workbench.own_copies import OwnCopies
from amqproxy.workbench.publish_window import Publication
from amqproxy.workbench.queue_pass import KEPT, Outcome

MAX_PLACES = 1000
"""Maximum of places whose messages are counted one by one; those beyond are counted together."""

OTHERS = "other places"

Change = Callable[[HeldMessage], Awaitable[tuple[Properties, bytes]]]
"""Returns the properties and the body with which a message is published; raises `NoPlace` to leave it."""


class Move:
    """An action that publishes each chosen message, changed by `change` if there is one.

    `places` counts messages by exchange and routing key. With `is_dry_run` nothing is published: a message whose
    exchange exists counts as done. `copies` learns what may come back to the queue.
    """

    def __init__(
        self,
        publisher: ConfirmingPublisher,
        destination: Destination,
        *,
        change: Change | None = None,
        copies: OwnCopies | None = None,
        is_dry_run: bool = False,
    ) -> None:
        self.places: dict[str, int] = {}
        self._publisher = publisher
        self._destination = destination
        self._change = change
        self._copies = copies
        self._is_dry_run = is_dry_run

    @property
    def uncertain(self) -> int:
        return self._publisher.unconfirmed

    async def settle(self, messages: Sequence[HeldMessage]) -> Sequence[Outcome]:
        self._publisher.unconfirmed = 0
        outcomes: list[Outcome | None] = [None] * len(messages)
        publications: list[Publication] = []
        positions: list[int] = []
        for position, message in enumerate(messages):
            try:
                changed = (message.properties, message.body) if self._change is None else await self._change(message)
                publication = self._destination.place(message, *changed)
            except NoPlace as error:
                outcomes[position] = str(error)
                continue
            if reason := await self._publisher.missing(publication.exchange):
                outcomes[position] = f"its exchange {publication.exchange!r} cannot be used: {reason}"
                continue
            publications.append(publication)
            if self._copies is not None and not self._is_dry_run:
                self._copies.note(
                    publication.exchange, publication.routing_key, publication.properties, publication.body
                )
            positions.append(position)
        failure: BatchFailure | None = None
        found: Sequence[str | None] = [""] * len(publications)
        if not self._is_dry_run:
            try:
                found = await self._publisher.publish(publications)
            except BatchFailure as error:
                failure, found = error, error.outcomes
        for position, publication, outcome in zip(positions, publications, found, strict=True):
            outcomes[position] = KEPT if self._is_dry_run else outcome
            if outcome == "":
                self._count(f"exchange {publication.exchange!r}, routing key {publication.routing_key!r}")
        if failure is not None:
            raise BatchFailure(str(failure), outcomes) from failure
        return [outcome for outcome in outcomes if outcome is not None]

    def _count(self, place: str) -> None:
        if place not in self.places and len(self.places) >= MAX_PLACES:
            place = OTHERS
        self.places[place] = self.places.get(place, 0) + 1
