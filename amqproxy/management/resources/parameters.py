"""Parameters of virtual hosts by component, and global ones."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any

from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import bad_request, not_found
from amqproxy.management.listing import Rows
from amqproxy.management.resources.limits import limit_fault
from amqproxy.management.resources.overview import cluster_id
from amqproxy.management.resources.parameter_terms import (
    MOST_FAULTS,
    check_parameter,
    erlang_term,
    validation_failed,
)

MOST_OF_NAME = 255
"""Maximum length of a name in characters."""

CLUSTER_ID = "internal_cluster_id"


async def parameters(call: Call) -> Rows:
    """Return the parameters of a component, of a virtual host, or all that the user may see."""
    return Rows(_chosen(call), ("vhost", "component", "name"))


async def parameter(call: Call) -> Entry:
    async for each in _chosen(call):
        if each["name"] == call.values["name"]:
            return each
    raise not_found()


async def global_parameters(call: Call) -> Rows:
    return Rows(_global_parameters(call), ("name",))


async def global_parameter(call: Call) -> Entry:
    async for each in _global_parameters(call):
        if each["name"] == call.values["name"]:
            return each
    raise not_found()


async def _global_parameters(call: Call) -> AsyncIterator[Entry]:
    """Yield the global parameters, with the cluster's identity, which RabbitMQ keeps there."""
    is_identified = False
    async for each in call.broker.objects("global-parameters"):
        is_identified |= each["name"] == CLUSTER_ID
        yield each
    if not is_identified:
        yield {"name": CLUSTER_ID, "value": cluster_id(call.facts)}


async def _chosen(call: Call) -> AsyncIterator[Entry]:
    component = call.values.get("component")
    async for each in call.broker.objects("parameters", call.values.get("vhost")):
        if component in (None, each["component"]) and call.sees(each["vhost"]):
            yield each


async def put_parameter(call: Call) -> Done:
    """Set a parameter; those of federation and shovels are kept, and have no effect."""
    value = call.required("value")["value"]
    component, vhost, name = (call.values[each] for each in ("component", "vhost", "name"))
    _check_name(name)
    call.check_size("value", value)
    match component:
        case "policy":
            raise bad_request("policies may not be set using this method")
        case "vhost-limits":
            if name != "limits":
                raise validation_failed([f"name not recognised: {name}"], is_4=call.facts.is_4)
            faults = [fault for key, each in _entries(name, value) if (fault := limit_fault(key, each)) is not None]
            if faults:
                raise validation_failed(faults[:MOST_FAULTS], is_4=call.facts.is_4)
        case "operator_policy":
            _entries(name, value)
            missing = [key for key in ("definition", "pattern", "priority") if key not in value]
            if missing:
                faults = [f'Key "{key}" not found in {name}' for key in missing]
                raise validation_failed(faults, is_4=call.facts.is_4)
        case _:
            try:
                check_parameter(component, name, value, is_4=call.facts.is_4)
            except RecursionError:
                raise bad_request("value: nested too deeply") from None
    return put(await call.change("put-parameter", vhost=vhost, component=component, name=name, value=value))


async def delete_parameter(call: Call) -> Done:
    keys = {each: call.values[each] for each in ("vhost", "component", "name")}
    return deleted(await call.change("delete-parameter", **keys))


def _check_name(name: str) -> None:
    if len(name) > MOST_OF_NAME:
        raise bad_request(f"a name has {MOST_OF_NAME} characters at most here")


def _entries(name: str, value: Any) -> Iterable[tuple[str, Any]]:
    if not isinstance(value, dict):
        raise bad_request(f"Validation failed\n\nUnrecognised terms [{erlang_term(value)}] in {name}\n")
    return value.items()


async def put_global_parameter(call: Call) -> Done:
    """Set a global parameter."""
    value = call.required("value")["value"]
    _check_name(call.values["name"])
    call.check_size("value", value)
    return put(await call.change("put-global-parameter", name=call.values["name"], value=value))


async def delete_global_parameter(call: Call) -> Done:
    return deleted(await call.change("delete-global-parameter", name=call.values["name"]))


async def put_cluster_name(call: Call) -> Done:
    """Name the cluster."""
    name = call.required("name")["name"]
    if not isinstance(name, str):
        raise bad_request("name is not a text")
    await call.change("put-global-parameter", name="cluster_name", value=name)
    return Done()
