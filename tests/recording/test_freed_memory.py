"""Memory that is free is kept while there is a recording, and given back then."""

import subprocess
import sys

PROGRAM = """
import resource
from amqproxy.recording import freed_memory

def pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    received = [bytes(range(256)) * 1024 for _ in range(64)]
    del received
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

usual = [pages(), pages()][-1]
freed_memory.keep(64 * 1024 * 1024)
kept = [pages(), pages()][-1]
freed_memory.give_back()
print(usual, kept, pages())
"""


def test_what_was_received_takes_no_new_pages() -> None:
    made = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    usual, kept, after = map(int, made.stdout.split())
    assert usual > 3000
    assert kept < 100
    assert after > 3000
