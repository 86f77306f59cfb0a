"""Parameters of virtual hosts by component, and global ones."""

from __future__ import annotations

from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import bad_request, not_found
from amqproxy.management.listing import Rows


async def parameters(call: Call) -> Rows:
    """Return the parameters of a component, of a virtual host, or all that the user may see."""
    return Rows(_chosen(call), ("vhost", "component", "name"))


async def parameter(call: Call) -> Entry:
    async for each in _chosen(call):
        if each["name"] == call.values["name"]:
            return each
    raise not_found()


async def global_parameters(call: Call) -> Rows:
    return Rows(call.broker.objects("global-parameters"), ("name",))


async def global_parameter(call: Call) -> Entry:
    async for each in call.broker.objects("global-parameters"):
        if each["name"] == call.values["name"]:
            return each
    raise not_found()


async def _chosen(call: Call) -> AsyncIterator[Entry]:
    component = call.values.get("component")
    async for each in call.broker.objects("parameters", call.values.get("vhost")):
        if component in (None, each["component"]) and call.sees(each["vhost"]):
            yield each


async def put_global_parameter(call: Call) -> Done:
    """Set a global parameter."""
    value = call.required("value")["value"]
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
