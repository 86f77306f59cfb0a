"""The shovels of a broker by their parameters: what the shovel process has to be told, and what it has reported."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any, Literal

from amqproxy.broker.broker import Broker
from amqproxy.broker.events import BrokerEvent
from amqproxy.process.log import logger
from amqproxy.shovels.definition import Shovel, parse_shovel
from amqproxy.shovels.shovel_messages import CountsReport, ShovelCounts, ShovelState, StartShovel, StopShovel

COMPONENT = "shovel"

PLUGIN = "rabbitmq_shovel"
"""RabbitMQ's plugin without which no shovel runs."""

RESTARTED = "shovel.restarted"
"""Event of a shovel that a user restarts."""

MOST_SHOVELS = 5000
"""Maximum of shovels that run at a time; others wait until one of them is deleted."""

NOT_ENABLED = f"shovels run in `amqproxy broker`, with the plugin {PLUGIN}"

Key = tuple[str, str]
"""A virtual host and a name."""


class KeptShovel:
    """A shovel parameter and the state of its shovel; without a `shovel`, the parameter is not valid.

    `since` is the time of the state, in seconds of the day.
    """

    def __init__(self, vhost: str, name: str, value: Any) -> None:
        self.vhost = vhost
        self.name = name
        self.value = value
        self.shovel: Shovel | None = None
        self.number = 0
        self.state: Literal["starting", "running", "terminated"] = "starting"
        self.reason = ""
        self.cause = ""
        self.source_uri = self.destination_uri = ""
        self.since = 0.0
        self.counts: ShovelCounts | None = None
        self.has_started = False

    def entry(self) -> dict[str, Any]:
        """Return the state for the management API; the URIs are without credentials."""
        counts = self.counts
        return {
            "vhost": self.vhost,
            "name": self.name,
            "value": self.value,
            "state": self.state,
            "reason": self.reason,
            "cause": self.cause,
            "since": self.since,
            "source_uri": self.source_uri,
            "destination_uri": self.destination_uri,
            "forwarded": 0 if counts is None else counts.forwarded,
            "remaining": None if counts is None else counts.remaining,
            "unpublished": None if counts is None else counts.unpublished,
            "blocked": counts is not None and counts.is_blocked,
        }


class ShovelStates:
    """The shovels of a broker. `wake` is called when there are commands. Without `is_enabled`, none runs."""

    def __init__(self, broker: Broker, *, is_enabled: bool = True, now: Callable[[], float] = time.time) -> None:
        self.wake: Callable[[], None] = lambda: None
        self.note_moved: Callable[[int], object] = lambda count: None
        """Called with numbers of messages that shovels have moved."""
        self._broker = broker
        self._is_enabled = is_enabled
        self._now = now
        self._kept: dict[Key, KeptShovel] = {}
        self._numbered: dict[int, KeptShovel] = {}
        self._last = 0
        self._changed: dict[Key, None] = {}
        self._unstarted: dict[Key, None] = {}
        """Shovels that wait since `MOST_SHOVELS` run."""
        self._stopped: list[int] = []
        for each in broker.parameters:
            if each["component"] == COMPONENT:
                self._set(each["vhost"], each["name"], each["value"])
        broker.events.recorders.append(self._observe)

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[KeptShovel]:
        return iter(list(self._kept.values()))

    @property
    def running(self) -> int:
        """Number of shovels that the process has been told to run."""
        return len(self._numbered)

    def entries(self, vhost: str | None, name: str | None) -> Iterator[dict[str, Any]]:
        """Yield the states of one virtual host, of one name, or all."""
        for each in self:
            if vhost in (None, each.vhost) and name in (None, each.name):
                yield each.entry()

    def count(self, state: str) -> int:
        """Return the number of shovels in a state."""
        return sum(each.state == state for each in self)

    # --- the parameters

    def _observe(self, event: BrokerEvent) -> None:
        key = (event.vhost, event.subject)
        match event.name:
            case "parameter.set" if event.details.get("component") == COMPONENT:
                self._set(event.vhost, event.subject, event.details["value"])
            case "parameter.cleared" if event.details.get("component") == COMPONENT:
                self._forget(key)
            case event_name if event_name == RESTARTED and key in self._kept:
                self._set(event.vhost, event.subject, self._kept[key].value)

    def _set(self, vhost: str, name: str, value: Any) -> None:
        self._forget((vhost, name))
        kept = self._kept[vhost, name] = KeptShovel(vhost, name, value)
        kept.since = self._now()
        if not self._is_enabled:
            self._end(kept, "the shovel does not run", NOT_ENABLED)
            return
        try:
            kept.shovel = parse_shovel(vhost, name, value, self._cluster)
        except (ValueError, RecursionError) as error:
            self._end(kept, "the parameter is not valid", str(error))
            return
        self._changed[vhost, name] = None
        self.wake()

    @property
    def _cluster(self) -> str:
        names = (each["value"] for each in self._broker.global_parameters if each["name"] == "cluster_name")
        return str(next(names, self._broker.node))

    def _forget(self, key: Key) -> None:
        kept = self._kept.pop(key, None)
        self._changed.pop(key, None)
        self._unstarted.pop(key, None)
        if kept is not None and self._numbered.pop(kept.number, None) is not None:
            self._stopped.append(kept.number)
            self.wake()

    # --- the process

    def commands(self) -> Iterator[StartShovel | StopShovel]:
        """Yield the commands for the process that have not been yielded yet."""
        while self._stopped:
            yield StopShovel(self._stopped.pop(0))
        free = MOST_SHOVELS - len(self._numbered) - len(self._changed)
        for key in list(islice(self._unstarted, max(0, free))):
            del self._unstarted[key]
            self._changed[key] = None
        while self._changed:
            key = next(iter(self._changed))
            del self._changed[key]
            kept = self._kept[key]
            if kept.shovel is None:
                continue
            if len(self._numbered) >= MOST_SHOVELS:
                self._unstarted[key] = None
                self._end(kept, "the shovel does not run", f"{MOST_SHOVELS} shovels run, which is the most")
                continue
            self._last += 1
            kept.number = self._last
            self._numbered[kept.number] = kept
            pause = float(kept.shovel.reconnect_delay) if kept.has_started else 0.0
            kept.has_started = True
            yield StartShovel(kept.number, kept.shovel, pause)

    def note(self, report: ShovelState | CountsReport) -> None:
        """Note a report of the process; one about a shovel that was stopped meanwhile is ignored."""
        if isinstance(report, CountsReport):
            for each in report.counts:
                self._note_counts(each)
            return
        kept = self._numbered.get(report.number)
        if kept is None:
            return
        match report.state:
            case "starting":
                if kept.state != "terminated":  # RabbitMQ 4 shows why the last attempt has failed
                    kept.state, kept.since = "starting", self._now()
            case "running":
                kept.state, kept.since, kept.reason, kept.cause = "running", self._now(), "", ""
                kept.source_uri, kept.destination_uri = report.source_uri, report.destination_uri
                logger().info("shovel running", vhost=kept.vhost, shovel=kept.name)
            case "terminated":
                self._end(kept, report.reason, report.cause)
                if kept.shovel is not None and not kept.shovel.reconnect_delay:  # it has ended in the process, too
                    del self._numbered[report.number]
                    self.wake()
            case "is-over":
                logger().info("shovel deletes itself", vhost=kept.vhost, shovel=kept.name)
                self._broker.clear_parameter(kept.vhost, COMPONENT, kept.name)

    def _note_counts(self, counts: ShovelCounts) -> None:
        kept = self._numbered.get(counts.number)
        if kept is not None:
            self.note_moved(counts.moved - (0 if kept.counts is None else kept.counts.moved))
            kept.counts = counts

    def note_process_end(self) -> None:
        """Note that the process has ended, and with it all shovels; those that reconnect are started again."""
        self._stopped.clear()
        for each in self._numbered.values():
            each.counts = None
            each.number = 0
            self._end(each, "needed a restart", "the shovel process has ended")
            if each.shovel is not None and each.shovel.reconnect_delay:
                self._changed[each.vhost, each.name] = None
        self._numbered.clear()

    def _end(self, kept: KeptShovel, reason: str, cause: str) -> None:
        is_known = (kept.state, kept.reason, kept.cause) == ("terminated", reason, cause)
        kept.state, kept.reason, kept.cause, kept.since = "terminated", reason, cause, self._now()
        if not is_known:
            logger().warning("shovel ended", vhost=kept.vhost, shovel=kept.name, reason=reason, cause=cause)
