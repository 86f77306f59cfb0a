"""A run of `tests.real.celery_defaults`: a worker, and who gives it tasks."""

import os
import subprocess
import sys
from pathlib import Path

from tests.real.celery_defaults import application
from tests.real.celery_worker import ROOT
from tests.real.poll import DEADLINE, until


def three_tasks(port: int, *, is_careful: bool, log: Path) -> None:
    """A worker that does three tasks, and ends in good order."""
    url = f"amqp://guest:guest@127.0.0.1:{port}//"
    environment = {name: value for name, value in os.environ.items() if name != "CAREFUL"} | {"BROKER": url}
    if is_careful:
        environment["CAREFUL"] = "1"
    command = [sys.executable, "-m", "celery", "--app", "tests.real.celery_defaults", "worker", "--pool", "solo"]
    command += ["--loglevel", "info"]
    with log.open("wb") as output:
        worker = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        until(lambda: " ready." in log.read_text(), "the worker to be ready")
        with application(url, is_careful=is_careful) as app:
            with app.producer_or_acquire() as producer:
                for number in range(3):
                    app.send_task("defaults.add", (number, number), producer=producer)
                # The pool drops connections without connection.close, and RabbitMQ what it has not handled by then.
                producer.connection.close()
            app.amqp.producer_pool.force_close_all()
            app.pool.force_close_all()
        until(lambda: log.read_text().count("] succeeded in ") == 3, "the tasks to be done")
        worker.terminate()
        worker.wait(DEADLINE)
    except (TimeoutError, subprocess.TimeoutExpired) as late:
        late.add_note(f"the worker's log:\n{log.read_text()}")
        raise
    finally:
        worker.kill()
        worker.wait()
