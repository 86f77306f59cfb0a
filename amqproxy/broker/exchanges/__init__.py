"""Exchanges of every type, and the messages that delayed exchanges hold.

- `exchange`: the base class with the bindings. `exchange_types`: the types by their names in exchange.declare.
- `direct`, `fanout`, `topic`, `headers`: the types of the specification.
- `consistent_hash`: x-consistent-hash. `delayed`: x-delayed-message.
- `delayed_messages`: the messages that the delayed exchanges of a virtual host hold until they are due.
"""
