"""What the Celery workers of the tests do: `python -m celery --app tests.real.celery_tasks worker …`.

BROKER is the URL of the broker.
"""

import os
import threading
from pathlib import Path
from typing import Any

import kombu
from celery import Celery

PRIORITIES = kombu.Queue("tests.celery.priorities", queue_arguments={"x-max-priority": 9})


def application(url: str) -> Celery:
    """The same on both sides; what a worker's client needs to know is in its URL."""
    app = Celery("tests", broker=url, backend="rpc://")
    app.conf.update(
        broker_connection_retry_on_startup=True,
        result_expires=60,
        task_queues=[kombu.Queue("tests.celery"), kombu.Queue("tests.celery.late"), PRIORITIES],
        task_default_queue="tests.celery",
        task_remote_tracebacks=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
    )
    return app


app = application(os.environ.get("BROKER", ""))
done: list[Any] = []


@app.task(name="add")
def add(x: int, y: int) -> int:
    return x + y


@app.task(name="retry", bind=True, max_retries=3)
def retry(self: Any, countdown: float) -> int:
    """How often it took: it fails twice."""
    if self.request.retries < 2:
        raise self.retry(countdown=countdown)
    return int(self.request.retries)


@app.task(name="note")
def note(what: Any) -> None:
    done.append(what)


@app.task(name="noted")
def noted() -> list[Any]:
    return done


@app.task(name="late", bind=True, acks_late=True)
def late(self: Any, started: str) -> str:
    """Never ends the first time."""
    if not self.request.delivery_info["redelivered"]:
        Path(started).touch()
        threading.Event().wait()
    return "redelivered"
