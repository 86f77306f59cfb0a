"""All that a rule can do: every action there is, told apart by its name in the config."""

from __future__ import annotations

from amqproxy.rules.allow import Allow

AnyRule = Allow
