"""All that a rule can do: every action there is, told apart by its name in the config."""

from __future__ import annotations

from amqproxy.rules.access.acl import AccessList
from amqproxy.rules.access.allow import Allow
from amqproxy.rules.access.refuse import Refuse
from amqproxy.rules.faults.fault import Fault
from amqproxy.rules.hold import Hold
from amqproxy.rules.limits.limit import Limit
from amqproxy.rules.log import Log
from amqproxy.rules.mirror import Mirror
from amqproxy.rules.rewriting.redact import Redact
from amqproxy.rules.rewriting.rewrite import Rewrite
from amqproxy.rules.scripting.script import Script
from amqproxy.rules.tag import Tag

AnyRule = AccessList | Allow | Fault | Hold | Limit | Log | Mirror | Redact | Refuse | Rewrite | Script | Tag
