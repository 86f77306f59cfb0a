"""Client properties as SQL over the column `client_properties` of events."""

from __future__ import annotations

from amqproxy.conversion.client_name import NAMES


def client_property(*names: str) -> str:
    """Return the SQL for the first of these properties that is set."""
    found = (f"get_json_object(client_properties, '$[\\'{name}\\']')" for name in names)
    return f"coalesce({', '.join(found)})"


CLIENT_NAME = client_property(*NAMES, "product")
"""Connection name, or product, of a client."""
