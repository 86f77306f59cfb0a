"""Users, and their limits."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import AsyncIterator

from amqproxy.management.call import Call, Done, Entry, deleted, put
from amqproxy.management.failure import bad_request
from amqproxy.management.listing import Rows
from amqproxy.management.resources.vhosts import tag_names


async def users(call: Call) -> Rows:
    return Rows(call.broker.objects("users"), ("name",), has_pages=call.facts.is_4)


async def user(call: Call) -> Entry:
    return await call.one("users", call.values["user"])


async def without_permissions(call: Call) -> Rows:
    """Return the users without permissions in any virtual host."""

    async def rows() -> AsyncIterator[Entry]:
        permitted = {each["user"] async for each in call.broker.objects("permissions")}
        async for each in call.broker.objects("users"):
            if each["name"] not in permitted:
                yield each

    return Rows(rows(), ("name",))


async def put_user(call: Call) -> Done:
    """Create a user, or change its password and its tags."""
    body = call.json()
    if "tags" not in body:
        raise bad_request("tags_not_present")
    password, hashed = body.get("password"), body.get("password_hash", "")
    if not isinstance(hashed, str) or not isinstance(password, str | None):
        raise bad_request("password and password_hash are texts")
    try:
        b64decode(hashed, validate=True)
    except ValueError:
        raise bad_request(["not_base64", hashed]) from None
    return put(
        await call.change(
            "put-user",
            name=call.values["user"],
            tags=tag_names(body["tags"]),
            password=password,
            password_hash=hashed,
            hashing_algorithm=body.get("hashing_algorithm"),
        )
    )


async def delete_user(call: Call) -> Done:
    return deleted(await call.change("delete-user", name=call.values["user"]))


async def bulk_delete(call: Call) -> Done:
    """Delete several users; RabbitMQ 3.10 refuses a list with one that does not exist, after those before it."""
    names = call.required("users")["users"]
    if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
        raise bad_request("users is not a list of names")
    for name in names:
        answer = await call.change("delete-user", name=name)
        if not answer["found"] and not call.facts.is_4:
            raise bad_request(["no_such_user", name])
    return Done()
