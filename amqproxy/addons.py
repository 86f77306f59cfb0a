"""Addons: what other packages add to amqproxy, by entry points in the groups below; see docs/addons.md.

Users of a group call `loaded`. An addon that cannot be loaded, or fails later, is left out and reported once:
`fail` tells it to the listener, by default Python's logging.
"""

from __future__ import annotations

import logging
import os
import traceback
from collections.abc import Callable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NamedTuple

RULES = "amqproxy.rules"
FINDINGS = "amqproxy.findings"
BODIES = "amqproxy.bodies"
EXPORTS = "amqproxy.exports"
COMMANDS = "amqproxy.commands"
TOKENS = "amqproxy.tokens"

KINDS = {RULES: "rule", FINDINGS: "finding", BODIES: "body", EXPORTS: "export", COMMANDS: "command", TOKENS: "token"}
"""Groups of entry points, and the kinds of addons in them."""

CHOSEN = "AMQPROXY_ADDONS"
"""Variable with the names of the packages whose addons are loaded, separated by commas, or `none`; by default, all."""

MAX_REASON = 500
"""Maximum length of the reason of a failure, in characters."""


class Addon(NamedTuple):
    """An entry point, and the package that has it."""

    group: str
    name: str
    package: str
    version: str
    entry_point: EntryPoint

    def __str__(self) -> str:
        return f"{KINDS[self.group]} {self.name} of {self.package} {self.version}"


Listener = Callable[[Addon, str], None]


def _log(addon: Addon, reason: str) -> None:
    logging.getLogger(__name__).warning("amqproxy: addon failed: %s: %s", addon, reason)


_listener: Listener = _log
_failures: dict[tuple[str, str], str] = {}


@cache
def installed() -> tuple[Addon, ...]:
    """Return the addons of all chosen packages, by group and name, whether they can be loaded or not."""
    wanted = os.environ.get(CHOSEN, "").replace(" ", "")
    if wanted == "none":
        return ()
    packages = set(filter(None, wanted.split(",")))
    every = entry_points()
    found = {}
    for group in KINDS:
        for each in every.select(group=group):
            package, version = (each.dist.name, each.dist.version) if each.dist else ("?", "?")
            if not packages or package in packages:
                found[group, each.name, package] = Addon(group, each.name, package, version, each)
    return tuple(found[key] for key in sorted(found))


def has(group: str) -> bool:
    """Whether any chosen package has an addon in the group."""
    return any(each.group == group for each in installed())


def loaded(group: str, check: Callable[[str, Any], None]) -> dict[str, Any]:
    """Return the objects that a group's addons are, by name, except those that fail.

    `check` raises `ValueError` for an object that is not what the group needs, and for a name that is taken.
    """
    values: dict[str, Any] = {}
    for addon in installed():
        if addon.group != group:
            continue
        try:
            if addon.name in values:
                raise ValueError("another package has an addon of that name")
            value = addon.entry_point.load()
            check(addon.name, value)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of others may raise anything
            fail(group, addon.name, error)
        else:
            values[addon.name] = value
    return values


def fail(group: str, name: str, error: BaseException) -> None:
    """Report the failure of an addon, unless it has been reported before."""
    if (group, name) in _failures:
        return
    reason = _failures[group, name] = _reason(error)
    for addon in installed():
        if (addon.group, addon.name) == (group, name):
            _listener(addon, reason)


def failure(addon: Addon) -> str | None:
    """Return why an addon has failed; `None` if it has not, or was not used."""
    return _failures.get((addon.group, addon.name))


def listen(listener: Listener) -> None:
    """Report failures to `listener` instead of Python's logging."""
    global _listener
    _listener = listener


def _reason(error: BaseException) -> str:
    """Return an exception on one line, with the file and line that raised it."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a class of the addon's own
        text = ""
    frames = traceback.extract_tb(error.__traceback__)
    if not isinstance(error, ValueError) or not text:
        text = f"{type(error).__name__}: {text}".removesuffix(": ")
    if frames and frames[-1].filename != __file__:
        text += f" ({frames[-1].filename}, line {frames[-1].lineno})"
    return " ".join(text.split())[:MAX_REASON]
