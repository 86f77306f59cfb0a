"""All rule actions, selected by their names in the configuration."""

from __future__ import annotations

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
from amqproxy.rules.scripting.script import Script

AnyRule = AccessList | Allow | Fault | Hold | Limit | Log | Mirror | Redact | Refuse | Rewrite | Script | Tag
