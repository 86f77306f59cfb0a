"""The switches between upstreams as an operator sees them, and what an operator may ask of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from amqproxy.configuration.upstream_config import ROUTABLE
from amqproxy.control.dialects import Entry
from amqproxy.control.request import (
    BackSwitch,
    BeginSwitch,
    ForgetSwitch,
    ForthSwitch,
    ListSwitches,
    ListSwitchQueues,
    SettleSwitch,
)
from amqproxy.control.request_error import RequestError
from amqproxy.rules.matching.filters import compiled
from amqproxy.switching.phase import MOVING, SwitchEvent
from amqproxy.switching.switch import Switch
from amqproxy.switching.switches import Switches

SwitchRequest = ListSwitches | ListSwitchQueues | BeginSwitch | BackSwitch | ForthSwitch | SettleSwitch | ForgetSwitch


class SwitchControl:
    """Lists and changes of `switches`. `passing` returns the listeners that leave logins to the brokers."""

    def __init__(self, switches: Switches, passing: Callable[[], Sequence[str]] = tuple) -> None:
        self._switches = switches
        self._passing = passing

    def entries(self) -> Iterator[Entry]:
        """Yield an entry for each switch."""
        return map(self._entry, self._switches)

    def queues(self, name: str) -> Iterator[Entry]:
        """Yield an entry for each queue of a switch, with what the latest move reports of it."""
        switch = self._named(name)
        reports = self._switches.progress(name).queues
        for place, queue in enumerate(switch.queues):
            report = reports.get(place)
            yield {
                "vhost": queue.vhost,
                "queue": queue.name,
                "state": report.state if report else "",
                "moved": report.moved if report else 0,
                "left": report.left if report else None,
                "text": report.text if report else "",
            }

    async def compared(self, name: str) -> list[Entry]:
        """Return an entry for each queue of a switch with its depths at both brokers; raise `RequestError`."""
        self._named(name)
        try:
            found = await self._switches.depths(name)
        except ValueError as error:
            raise RequestError("not-switched", str(error)) from None
        return [
            {
                "vhost": queue.vhost,
                "queue": queue.name,
                "source": {"messages": source.messages, "consumers": source.consumers, "text": source.text},
                "target": {"messages": target.messages, "consumers": target.consumers, "text": target.text},
            }
            for queue, source, target in found
        ]

    async def change(self, request: SwitchRequest) -> dict[str, Any]:
        """Carry out a request, and return the response; raise `RequestError`."""
        try:
            switch = await self._changed(request)
        except ValueError as error:
            raise RequestError("not-switched", str(error)) from None
        except OSError as error:
            raise RequestError("not-switched", f"the switch cannot be kept: {error.strerror}") from None
        return {"switch": self._entry(switch)}

    async def _changed(self, request: SwitchRequest) -> Switch:
        match request:
            case BeginSwitch():
                switch = _switch_of(request)
                passing = self._passing()
                if switch.needs_login and passing:
                    raise ValueError(
                        "virtual host, user and properties are known only of clients that log in at the proxy: give "
                        f"the listener {passing[0]} a `login`, or choose clients by what is known before"
                    )
                return await self._switches.begin(switch)
            case ForgetSwitch():
                self._named(request.switch)
                return await self._switches.forget(request.switch)
            case SettleSwitch():
                switch = self._named(request.switch)
                if switch.phase not in MOVING:
                    raise ValueError(f"no messages are on their way: the switch is {switch.state}")
                return await self._switches.turn(request.switch, SwitchEvent.EMPTIED)
            case BackSwitch() | ForthSwitch():
                self._named(request.switch)
                event = SwitchEvent.BACK if isinstance(request, BackSwitch) else SwitchEvent.FORTH
                return await self._switches.turn(request.switch, event)
            case _:
                raise AssertionError(request)

    def _named(self, name: str) -> Switch:
        found = self._switches.get(name)
        if found is None:
            names = ", ".join(each.name for each in self._switches)
            raise RequestError("no-switch", f"there is no switch `{name}`: there are {names or 'none'}")
        return found

    def _entry(self, switch: Switch) -> Entry:
        progress = self._switches.progress(switch.name)
        reports = progress.queues.values()
        return {
            "switch": switch.name,
            "source": switch.source,
            "target": switch.target,
            "vhost": switch.vhost,
            "when": switch.when,
            "strict": switch.strict,
            "state": switch.state,
            "phase": str(switch.phase),
            "clients": len(self._switches.misplaced(switch)),
            "queues": len(switch.queues),
            "empty": sum(each.state == "empty" for each in reports),
            "moved": progress.moved,
            "left": progress.left,
            "waits": progress.waiting_for(switch.queues),
        }


def _switch_of(request: BeginSwitch) -> Switch:
    """Return the switch of a request; raise `ValueError` if it cannot work."""
    if request.when is not None:
        unknown = sorted(compiled(request.when).names - ROUTABLE)
        if unknown:
            known = ", ".join(sorted(ROUTABLE))
            raise ValueError(f"`{unknown[0]}` is not known when a client is routed; known are {known}")
    name = request.switch or "-".join([request.source, request.target])
    return Switch(
        name=name,
        source=request.source,
        target=request.target,
        vhost=request.vhost,
        when=request.when,
        strict=request.strict,
        rate=request.rate,
        queues=tuple(request.queues or ()),
        finds_queues=request.finds_queues,
    )
