"""The tables: files of earlier versions have these names."""

import sqlite3

from amqproxy.broker.storage.schema import SCHEMA

TABLES = {
    "definition": ["key", "value"],
    "lane": ["number", "kind", "vhost", "name", "priority", "messages", "octets", "last", "delivered"],
    "entry": ["id", "size", "expires_at", "body", "content"],
    "body": ["number", "content"],
    "delivery_count": ["id", "count", "turn"],
}


def test_tables_and_columns_keep_their_names() -> None:
    database = sqlite3.connect(":memory:")
    database.executescript(SCHEMA)
    tables = [name for (name,) in database.execute("select name from sqlite_schema where type = 'table'")]
    found = {name: [row[1] for row in database.execute(f"pragma table_info({name})")] for name in tables}
    database.close()
    assert found == TABLES
