"""Durable state, and page files for messages that do not fit into memory.

- `journal`: durable changes recorded by the model as values: definitions, messages and their settlements.
- `message_log`: the durable messages of one queue in the journal. `batch`: the unit that the store writes at once.
- `definition_records`: virtual hosts, exchanges, queues, bindings, users, policies and transactions, as the records of
  a journal.
- `packing`: a message as it is stored on disk.
- `store`: one SQLite database, to which a thread writes the journal's batches. `batch_writer`: the parts of a batch.
  `schema`: its tables. `data_directory`: locks the directory of the database.
- `group_commit`: how long a batch gathers before it is written.
- `page_file`: unnamed files for messages that are not durable, when memory is short.
"""
