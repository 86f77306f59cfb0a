"""All rule actions, selected by their names in the configuration."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from amqproxy import addons
from amqproxy.rules.access.acl import AccessList
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.faults.fault import Fault
from amqproxy.rules.limits.limit import Limit
from amqproxy.rules.observing.hold import Hold
from amqproxy.rules.observing.log import Log
from amqproxy.rules.observing.mirror import Mirror
from amqproxy.rules.observing.tag import Tag
from amqproxy.rules.rewriting.redact import Redact
from amqproxy.rules.rewriting.rewrite import Rewrite
from amqproxy.rules.scripting.addon_rule import AddonRule
from amqproxy.rules.scripting.script import Script

AnyRule = AccessList | Allow | Fault | Hold | Limit | Log | Mirror | Redact | Refuse | Rewrite | Script | Tag


def _check(name: str, action: Any) -> None:
    """Raise `ValueError` unless the config can have the rules of an addon, beside all others."""
    if not (isinstance(action, type) and issubclass(action, AddonRule)):
        raise ValueError("it is not a subclass of amqproxy.rules.scripting.AddonRule")
    if action.__struct_config__.tag != name:
        raise ValueError(f"its tag is {action.__struct_config__.tag!r}, and not {name!r}, the name of its entry point")
    try:
        msgspec.json.Decoder(AnyRule | action)
    except (TypeError, ValueError) as error:
        raise ValueError(f"its keys cannot be read from a config: {error}") from None


if not TYPE_CHECKING:
    for _action in addons.loaded(addons.RULES, _check).values():
        AnyRule |= _action
