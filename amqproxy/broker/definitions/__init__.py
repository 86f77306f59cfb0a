"""Export, import and recovery of everything declared in a broker.

- `definitions_json`: definitions.json, as RabbitMQ exports and imports it.
- `unsupported`: parts of definitions.json that have no effect here.
- `recovery`: definitions as records of the journal, and their restoration after a restart.
"""
