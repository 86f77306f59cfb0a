"""definitions.json: users, virtual hosts, permissions, policies, queues, exchanges and bindings, as RabbitMQ writes it.

An import keeps existing objects, except that users and permissions are replaced. Messages are not included.
What other RabbitMQ versions and plugins write is kept if possible, and named in a warning where it has no effect.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from amqproxy.amqp091.errors import NotFound, PreconditionFailed, ProtocolError
from amqproxy.amqp091.wire import Array, Field, Item, Table
from amqproxy.broker.access.limits import USER_LIMITS, VHOST_LIMITS, check_limits
from amqproxy.broker.access.permissions import Permission, TopicPermission
from amqproxy.broker.access.users import USUAL_ALGORITHM, User, hash_password
from amqproxy.broker.broker import Broker
from amqproxy.broker.definitions.unsupported import HEADINGS, has_effect, ineffective, warnings_of
from amqproxy.broker.queues.policies import APPLY_TO, Policy, make_policy
from amqproxy.broker.queues.queue_arguments import check_declare

if TYPE_CHECKING:
    from amqproxy.broker.exchanges.exchange import Exchange
    from amqproxy.broker.queues.queue import Queue
    from amqproxy.broker.vhost import VirtualHost

Entry = Mapping[str, Any]


class DefinitionError(ValueError):
    """An invalid entry of definitions.json; the text names the entry and the reason."""


class _Unsupported(Exception):
    """An entry that the broker cannot have, although another RabbitMQ version or a plugin has it."""


# --- import


def load(
    broker: Broker,
    definitions: Entry,
    now: float,
    vhost: str | None = None,
    *,
    first: int = 0,
    refuses_unsupported: bool = False,
) -> list[str]:
    """Create all objects of `definitions`, or only those of a virtual host, in `vhost` whatever the entries name.

    `first` is the number of the first entry of each section, if they are a part of it. Returns warnings with their
    places in the file. Entries are left out that this broker cannot have, such as an exchange of a plugin's type, and
    bindings whose source or destination does not exist: RabbitMQ exports those of exclusive queues and of internal
    exchanges too. Other parts are kept without effect. Raises `DefinitionError` at the first invalid entry, and with
    `refuses_unsupported` at one that the broker cannot have; the entries before it, in the order of `_SECTIONS`, are
    created.
    """
    left_out = [f"{name}: left out: unknown section" for name in definitions if name not in (*_SECTIONS, *HEADINGS)]
    without_effect: dict[str, list[str]] = {}
    for section, make in _SECTIONS.items():
        if vhost is not None and section not in _OF_VHOST:
            continue
        for number, entry in enumerate(definitions.get(section) or (), first):
            place = f"{section}[{number}]"
            if not isinstance(entry, Mapping):
                raise DefinitionError(f"{place}: not an object")
            if not isinstance(entry.get("name", ""), str):
                raise DefinitionError(f"{place}: 'name' is not a string")
            try:
                make(broker, entry if vhost is None else {**entry, "vhost": vhost}, now)
                for what in ineffective(section, entry):
                    without_effect.setdefault(what, []).append(place)
            except KeyError as error:
                raise DefinitionError(f"{place}: {error.args[0]!r} is missing") from None
            except _Unsupported as error:
                if refuses_unsupported:
                    raise DefinitionError(f"{place}: {error}") from None
                left_out.append(f"{place}: left out: {error}")
            except NotFound as error:
                left_out.append(f"{place}: left out: {error.text}")
            except ProtocolError as error:
                raise DefinitionError(f"{place}: {error.text}") from None
            except Exception as error:  # noqa: BLE001 - any other error that an invalid entry causes
                raise DefinitionError(f"{place}: {error}") from None
    return [*left_out, *warnings_of(without_effect)]


def _load_user(broker: Broker, entry: Entry, now: float) -> None:
    algorithm = entry.get("hashing_algorithm") or USUAL_ALGORITHM
    hashed = entry.get("password_hash")
    if hashed is None:
        password = entry.get("password")
        hashed = "" if password is None else hash_password(password, algorithm)
    _check_base64(hashed)
    tags = entry.get("tags") or ()
    names = [tag.strip() for tag in tags.split(",")] if isinstance(tags, str) else tags
    limits = _known(entry.get("limits"), USER_LIMITS)
    check_limits(limits, USER_LIMITS)
    broker.put_user(entry["name"], hashed, algorithm, [name for name in names if name])
    broker.users[entry["name"]].set_limits(limits)


def _check_base64(hashed: str) -> None:
    try:
        b64decode(hashed, validate=True)
    except (TypeError, ValueError):
        raise DefinitionError("'password_hash' is not in base64") from None


def _load_vhost(broker: Broker, entry: Entry, now: float) -> None:
    vhost = broker.add_vhost(entry["name"])
    metadata = entry.get("metadata") or {}
    tags = metadata.get("tags") or entry.get("tags") or []
    names = [tag for tag in tags.split(",") if tag] if isinstance(tags, str) else tags
    usual = entry.get("default_queue_type")
    others = {} if usual is None else {"default_queue_type": usual}
    vhost.metadata |= others | {name: value for name, value in metadata.items() if name not in ("description", "tags")}
    vhost.describe(metadata.get("description") or vhost.description, names)
    vhost.set_limits({**vhost.limits, **_known(entry.get("limits"), VHOST_LIMITS)})


def _known(limits: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: value for name, value in dict(limits or ()).items() if name in names}


def _load_permission(broker: Broker, entry: Entry, now: float) -> None:
    vhost = _vhost(broker, entry)
    _user(broker, entry).permit(vhost.name, Permission(entry["configure"], entry["write"], entry["read"]))


def _load_topic_permission(broker: Broker, entry: Entry, now: float) -> None:
    vhost = _vhost(broker, entry)
    permission = TopicPermission(entry["write"], entry["read"])
    _user(broker, entry).permit_topic(vhost.name, entry["exchange"], permission)


def load_parameter(broker: Broker, entry: Entry, now: float) -> None:
    """Set a parameter of a virtual host; raise `ValueError` for limits or an operator policy that are not valid."""
    vhost, value = _vhost(broker, entry), entry["value"]
    if entry["component"] == "vhost-limits":
        vhost.set_limits(_known(value, VHOST_LIMITS))
    elif entry["component"] == "operator_policy":
        vhost.set_policy(_policy({**value, "name": entry["name"]}, is_operator=True), now, is_operator=True)
    else:
        broker.set_parameter(vhost.name, entry["component"], entry["name"], value)


def _load_global_parameter(broker: Broker, entry: Entry, now: float) -> None:
    broker.set_global_parameter(entry["name"], entry["value"])


def _load_policy(broker: Broker, entry: Entry, now: float) -> None:
    _vhost(broker, entry).set_policy(_policy(entry), now)


def _policy(entry: Entry, *, is_operator: bool = False) -> Policy:
    apply_to = entry.get("apply-to", "all")
    if apply_to not in APPLY_TO:
        raise _Unsupported(f"unknown apply-to '{apply_to}'")
    return make_policy(
        entry["name"],
        entry["pattern"],
        dict(entry["definition"]),
        entry.get("priority", 0),
        apply_to,
        is_operator=is_operator,
        keeps_unknown=True,
    )


def _load_queue(broker: Broker, entry: Entry, now: float) -> None:
    vhost = _vhost(broker, entry)
    name = entry["name"]
    if name in vhost.queues:
        return
    durable, auto_delete = _flag(entry, "durable", True), _flag(entry, "auto_delete")
    arguments = arguments_of(entry.get("arguments") or {})
    check = partial(
        check_declare,
        f"queue '{name}' in vhost '{vhost.name}'",
        durable=durable,
        exclusive=False,
        auto_delete=auto_delete,
        profile=vhost.profile,
    )
    try:
        check(arguments)
    except PreconditionFailed:
        # Arguments of another version that would have no effect cost no queue.
        arguments = Table([each for each in arguments.fields if has_effect(each.name)])
        try:
            check(arguments)
        except PreconditionFailed as error:
            raise _Unsupported(error.text) from None
    vhost.declare_queue(
        name, None, durable=durable, exclusive=False, auto_delete=auto_delete, arguments=arguments, now=now
    )


def _load_exchange(broker: Broker, entry: Entry, now: float) -> None:
    vhost = _vhost(broker, entry)
    name, type_ = entry["name"], entry["type"]
    if name not in vhost.exchanges:
        if type_ not in vhost.exchange_types:
            raise _Unsupported(f"unknown exchange type '{type_}'")
        if name.startswith("amq."):
            raise _Unsupported(f"exchange '{name}' is not available")
        vhost.declare_exchange(
            name,
            type_,
            durable=_flag(entry, "durable", True),
            auto_delete=_flag(entry, "auto_delete"),
            internal=_flag(entry, "internal"),
            arguments=arguments_of(entry.get("arguments") or {}),
        )


def _load_binding(broker: Broker, entry: Entry, now: float) -> None:
    vhost, name = _vhost(broker, entry), entry["destination"]
    destination: Queue | Exchange
    kind = entry.get("destination_type", "queue")
    if kind not in ("queue", "exchange"):
        raise DefinitionError(f"destination_type '{kind}' is neither queue nor exchange")
    if kind == "queue":
        destination = vhost.queue(name, vhost.queues[name].exclusive_to if name in vhost.queues else None)
    else:
        destination = vhost.exchange(name)
    arguments = arguments_of(entry.get("arguments") or {})
    vhost.bind(vhost.exchange(entry["source"]), destination, entry["routing_key"], arguments)


def _flag(entry: Entry, name: str, usual: bool = False) -> bool:
    value = entry.get(name, usual)
    if not isinstance(value, bool):
        raise DefinitionError(f"'{name}' is neither true nor false")
    return value


def _vhost(broker: Broker, entry: Entry) -> VirtualHost:
    vhost = broker.vhosts.get(entry["vhost"])
    if vhost is None:
        raise DefinitionError(f"virtual host '{entry['vhost']}' does not exist")
    return vhost


def _user(broker: Broker, entry: Entry) -> User:
    user = broker.users.get(entry["user"])
    if user is None:
        raise DefinitionError(f"user '{entry['user']}' does not exist")
    return user


_SECTIONS: dict[str, Callable[[Broker, Entry, float], None]] = {
    "users": _load_user,
    "vhosts": _load_vhost,
    "permissions": _load_permission,
    "topic_permissions": _load_topic_permission,
    "parameters": load_parameter,
    "global_parameters": _load_global_parameter,
    "policies": _load_policy,
    "queues": _load_queue,
    "exchanges": _load_exchange,
    "bindings": _load_binding,
}
"""The loader of each section's entries, in the order of loading."""

_OF_VHOST = frozenset({"parameters", "policies", "queues", "exchanges", "bindings"})
"""The sections of one virtual host, as in RabbitMQ, where permissions belong to users."""


# --- export


def export(broker: Broker) -> dict[str, Any]:
    """Return all definitions of a broker except exclusive queues, which belong to their connections."""
    vhosts = list(broker.vhosts.values())
    return {
        "rabbit_version": broker.profile.version,
        "rabbitmq_version": broker.profile.version,
        "product_name": "RabbitMQ",
        "product_version": broker.profile.version,
        "users": [user_entry(user) for user in broker.users.values()],
        "vhosts": [vhost_entry(vhost) for vhost in vhosts],
        "permissions": [
            {"user": user.name, "vhost": vhost, **permission._asdict()}
            for user in broker.users.values()
            for vhost, permission in user.permissions.items()
        ],
        "topic_permissions": [
            {"user": user.name, "vhost": vhost, "exchange": exchange, **permission._asdict()}
            for user in broker.users.values()
            for (vhost, exchange), permission in user.topic_permissions.items()
        ],
        "parameters": [*broker.parameters, *(entry for vhost in vhosts for entry in parameters_of(vhost))],
        "global_parameters": list(broker.global_parameters),
        "policies": [
            {"vhost": vhost.name, "name": policy.name, **policy_value(policy)}
            for vhost in vhosts
            for policy in vhost.policies.values()
        ],
        "queues": [queue_entry(vhost, queue) for vhost in vhosts for queue in _lasting(vhost.queues.values())],
        "exchanges": [
            exchange_entry(vhost, exchange)
            for vhost in vhosts
            for exchange in vhost.exchanges.values()
            if exchange.name and not exchange.name.startswith("amq.")
        ],
        "bindings": [entry for vhost in vhosts for entry in _binding_entries(vhost)],
    }


def user_entry(user: User) -> dict[str, Any]:
    return {
        "name": user.name,
        "password_hash": user.password_hash,
        "hashing_algorithm": user.hashing_algorithm,
        "tags": list(user.tags),
        "limits": dict(user.limits),
    }


def vhost_entry(vhost: VirtualHost) -> dict[str, Any]:
    metadata = {"description": vhost.description, "tags": list(vhost.tags), **vhost.metadata}
    return {"name": vhost.name, "limits": [list(each) for each in vhost.limits.items()], "metadata": metadata}


def parameters_of(vhost: VirtualHost) -> Iterable[dict[str, Any]]:
    if vhost.limits:
        yield {"vhost": vhost.name, "component": "vhost-limits", "name": "limits", "value": dict(vhost.limits)}
    for policy in vhost.operator_policies.values():
        value = policy_value(policy)
        yield {"vhost": vhost.name, "component": "operator_policy", "name": policy.name, "value": value}


def policy_value(policy: Policy) -> dict[str, Any]:
    return {
        "pattern": policy.pattern.pattern,
        "apply-to": policy.apply_to,
        "definition": dict(policy.definition),
        "priority": policy.priority,
    }


def _lasting(queues: Iterable[Queue]) -> Iterable[Queue]:
    return (queue for queue in queues if queue.exclusive_to is None)


def queue_entry(vhost: VirtualHost, queue: Queue) -> dict[str, Any]:
    return {
        "name": queue.name,
        "vhost": vhost.name,
        "type": queue.arguments.get("x-queue-type", "classic"),
        "durable": queue.durable,
        "auto_delete": queue.auto_delete,
        "arguments": definition_value(queue.arguments),
    }


def exchange_entry(vhost: VirtualHost, exchange: Exchange) -> dict[str, Any]:
    return {
        "name": exchange.name,
        "vhost": vhost.name,
        "type": exchange.type,
        "durable": exchange.durable,
        "auto_delete": exchange.auto_delete,
        "internal": exchange.internal,
        "arguments": definition_value(exchange.arguments),
    }


def _binding_entries(vhost: VirtualHost) -> Iterable[dict[str, Any]]:
    for source in vhost.exchanges.values():
        for binding in source.bindings.values():
            destination = binding.destination
            is_exchange = vhost.exchanges.get(destination.name) is destination
            if getattr(destination, "exclusive_to", None) is None:
                yield {
                    "source": source.name,
                    "vhost": vhost.name,
                    "destination": destination.name,
                    "destination_type": "exchange" if is_exchange else "queue",
                    "routing_key": binding.routing_key,
                    "arguments": definition_value(binding.arguments),
                }


# --- arguments in JSON


def arguments_of(value: Mapping[str, Any]) -> Table:
    """Return an argument table from JSON with RabbitMQ's wire types: every integer is a long."""
    return Table([Field(name, *_typed(each)) for name, each in value.items()])


def _typed(value: Any) -> tuple[str, Any]:
    if isinstance(value, bool):
        return "t", value
    if isinstance(value, int):
        return "l", value
    if isinstance(value, float):
        return "d", value
    if isinstance(value, str):
        return "S", value
    if value is None:
        return "V", None
    if isinstance(value, Mapping):
        return "F", arguments_of(value)
    return "A", Array([Item(*_typed(each)) for each in value])


def definition_value(value: Any) -> Any:
    """Return a table's value as JSON; bytes that are not UTF-8 become base64."""
    if isinstance(value, Mapping):
        return {_text(name): definition_value(each) for name, each in value.items()}
    if isinstance(value, Array):
        return [definition_value(each) for each in value]
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return b64encode(value).decode()
    if isinstance(value, str):
        return _text(value)
    return value if isinstance(value, (int, float)) or value is None else float(value)


def _text(value: str) -> str:
    """Return text that JSON can hold, with invalid UTF-8 replaced."""
    return value.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
