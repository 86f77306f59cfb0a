"""Ledger of a directory of tables: its captures and files, committed batch by batch. Needs no Spark.

A batch has a number, its files carry the number, and it takes effect when its commit has been written, last and
atomically:

    _pipeline/staging/N/          files that Spark is writing
    _pipeline/pending/N.json      files that are about to get their names
    <table>/date=…/hour=…/batch-N-….parquet; batch-M-again-N-….parquet if all its rows are of batches up to M;
                                  batch-M-open-N-….parquet has open connections or channels, until the next batch
    _pipeline/commits/N.json      commits the files to the table, and removes the files that it lists
    _pipeline/carry/N/            state of the batch for the next: open messages, state of connections
    <table>/_symlink_format_manifest/manifest   the committed files, for other readers
    _pipeline/snapshots/N.json    all commits up to N in one file, from time to time

If a driver dies, the next one deletes the uncommitted files, and begins the batch again.

    ledger    the driver's view, batch by batch
    commits   committed batches, and their combined content
    captures  captures as they were when they were ingested
    manifests the committed files of each table, for other readers
    lock      one driver at a time
    files     the files, on a disk or in a bucket
    errors    errors of a directory of tables
"""

from amqproxy.pipeline.ledger.captures import Capture, present
from amqproxy.pipeline.ledger.commits import Commit, CommittedFiles, Contents, committed_files, contents
from amqproxy.pipeline.ledger.errors import LedgerError, Occupied
from amqproxy.pipeline.ledger.files import PRIVATE
from amqproxy.pipeline.ledger.ledger import Found, Ledger, is_open_file

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
    "is_open_file",
    "present",
]
