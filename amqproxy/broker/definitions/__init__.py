"""Everything that is declared in a broker, exported, imported and recovered.

- `definitions_json`: definitions.json, as RabbitMQ exports and imports it.
- `recovery`: what the journal keeps of definitions, and how a restart declares them again.
"""
