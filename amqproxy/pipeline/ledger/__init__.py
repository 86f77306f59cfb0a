"""What a directory of tables holds: which captures, in which files, committed batch by batch. No Spark is needed.

A batch is numbered, its files carry the number, and it counts when its commit has been written, which is last and
atomic:

    _pipeline/staging/N/      what Spark is writing
    _pipeline/pending/N.json  which files are about to get their names
    <table>/date=…/hour=…/batch-N-….parquet; batch-M-again-N-….parquet where all its rows are of batches up to M
    _pipeline/commits/N.json  from here on they are part of the table, and those that it removes are not
    _pipeline/carry/N/        what the batch leaves for the next: open messages, state of connections
    _pipeline/snapshots/N.json  all commits up to N in one, from time to time

Whatever ends a driver in between: the next one deletes what was not committed, and begins the batch again.

    ledger    the driver's view, batch by batch
    commits   batches that count, and what there is after all of them
    captures  captures as they were when they were ingested
    lock      one driver at a time
    files     the files, on a disk or in a bucket
    errors    what is wrong with a directory of tables
"""

from amqproxy.pipeline.ledger.captures import Capture, present
from amqproxy.pipeline.ledger.commits import Commit, CommittedFiles, Contents, committed_files, contents
from amqproxy.pipeline.ledger.errors import LedgerError, Occupied
from amqproxy.pipeline.ledger.files import PRIVATE
from amqproxy.pipeline.ledger.ledger import Found, Ledger

__all__ = [
    "PRIVATE",
    "Capture",
    "Commit",
    "CommittedFiles",
    "Contents",
    "Found",
    "Ledger",
    "LedgerError",
    "Occupied",
    "committed_files",
    "contents",
    "present",
]
