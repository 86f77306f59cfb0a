"""Changes of policies and parameters."""

from __future__ import annotations

from typing import Any

from amqproxy.broker.queues.policies import make_policy
from amqproxy.control.changes.access_changes import Answer, Change
from amqproxy.control.changes.actor import Actor


class PutPolicy(Change, frozen=True, tag="put-policy"):
    """Set a policy, or an operator policy."""

    vhost: str
    name: str
    pattern: str
    definition: dict[str, Any]
    priority: Any = 0
    apply_to: Any = "all"
    is_operator: bool = False

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        actor.check_size("definition", self.definition)
        is_new = self.name not in (vhost.operator_policies if self.is_operator else vhost.policies)
        policy = make_policy(
            self.name, self.pattern, self.definition, self.priority, self.apply_to, is_operator=self.is_operator
        )
        vhost.set_policy(policy, actor.now, is_operator=self.is_operator)
        return {"new": is_new}


class DeletePolicy(Change, frozen=True, tag="delete-policy"):
    """Remove a policy, or an operator policy."""

    vhost: str
    name: str
    is_operator: bool = False

    def apply(self, actor: Actor) -> Answer:
        return {"found": actor.vhost(self.vhost).clear_policy(self.name, actor.now, is_operator=self.is_operator)}


class PutGlobalParameter(Change, frozen=True, tag="put-global-parameter"):
    """Set a global parameter."""

    name: str
    value: Any

    def apply(self, actor: Actor) -> Answer:
        is_new = all(each["name"] != self.name for each in actor.broker.global_parameters)
        actor.broker.set_global_parameter(self.name, self.value)
        return {"new": is_new}


class DeleteGlobalParameter(Change, frozen=True, tag="delete-global-parameter"):
    """Remove a global parameter."""

    name: str

    def apply(self, actor: Actor) -> Answer:
        return {"found": actor.broker.clear_global_parameter(self.name)}
