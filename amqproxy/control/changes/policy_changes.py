"""Changes of policies and parameters."""

from __future__ import annotations

from typing import Any

import msgspec

from amqproxy.broker.definitions.definitions_json import load_parameter, parameters_of
from amqproxy.broker.queues.policies import make_policy
from amqproxy.broker.vhost import VirtualHost
from amqproxy.control.changes.access_changes import Answer, Change
from amqproxy.control.changes.actor import Actor
from amqproxy.shovels.definition import local_vhosts
from amqproxy.shovels.shovel_states import COMPONENT, RESTARTED


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


class PutParameter(Change, frozen=True, tag="put-parameter"):
    """Set a parameter of a virtual host: limits, an operator policy, or one that the broker only keeps."""

    vhost: str
    component: str
    name: str
    value: Any

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        actor.check_size("value", self.value)
        if self.component == "operator_policy":
            given = {key.replace("-", "_"): value for key, value in dict(self.value).items()}
            named = {"vhost": self.vhost, "name": self.name, "is_operator": True}
            return msgspec.convert(given | named, PutPolicy).apply(actor)
        if self.component == COMPONENT:
            _check_local(actor, self.value)
        is_new = not _has_parameter(actor, vhost, self.component, self.name)
        entry = {"vhost": self.vhost, "component": self.component, "name": self.name, "value": self.value}
        load_parameter(actor.broker, entry, actor.now)
        return {"new": is_new}


class DeleteParameter(Change, frozen=True, tag="delete-parameter"):
    """Remove a parameter of a virtual host."""

    vhost: str
    component: str
    name: str

    def apply(self, actor: Actor) -> Answer:
        vhost = actor.vhost(self.vhost)
        is_there = _has_parameter(actor, vhost, self.component, self.name)
        if self.component == "vhost-limits" and is_there:
            vhost.set_limits({})
        elif self.component == "operator_policy":
            vhost.clear_policy(self.name, actor.now, is_operator=True)
        else:
            actor.broker.clear_parameter(self.vhost, self.component, self.name)
        return {"found": is_there}


def _check_local(actor: Actor, shovel: Any) -> None:
    """Raise `ValueError` with RabbitMQ's text if a shovel would enter virtual hosts that the user may not use."""
    broker, user = actor.broker, actor.user
    refused = [each for each in local_vhosts(shovel) if each not in broker.vhosts or not user.may_enter(each)]
    if refused:
        faults = [f'user "{user.name}" may not connect to vhost "{each}"\n' for each in refused]
        raise ValueError("Validation failed\n\n" + "".join(faults))


def _has_parameter(actor: Actor, vhost: VirtualHost, component: str, name: str) -> bool:
    key = {"vhost": vhost.name, "component": component, "name": name}
    return any({**each, **key} == each for each in (*actor.broker.parameters, *parameters_of(vhost)))


class RestartShovel(Change, frozen=True, tag="restart-shovel"):
    """Start a shovel again, whatever its state."""

    vhost: str
    name: str

    def apply(self, actor: Actor) -> Answer:
        is_there = _has_parameter(actor, actor.vhost(self.vhost), COMPONENT, self.name)
        if is_there:
            actor.broker.events.report(RESTARTED, self.vhost, self.name)
        return {"found": is_there}


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
