"""A process of a Celery worker."""

import os
import subprocess
import sys
import uuid
from pathlib import Path

from tests.real.poll import until

ROOT = Path(__file__).parents[2]


class Worker:
    """One worker process, which is ready once it is constructed."""

    def __init__(self, url: str, directory: Path, queue: str, *options: str) -> None:
        self.name = f"{queue}-{uuid.uuid4()}@tests"
        self.log = directory / f"{self.name}.log"
        command = [sys.executable, "-m", "celery", "--app", "tests.real.celery_tasks", "worker", "--pool", "solo"]
        command += ["--hostname", self.name, "--queues", queue, "--loglevel", "info", *options]
        with self.log.open("wb") as output:
            self.process = subprocess.Popen(
                command, cwd=ROOT, env=os.environ | {"BROKER": url}, stdout=output, stderr=output
            )
        try:
            until(self.is_ready, "the worker to be ready")
        except BaseException:
            self.kill()
            raise

    def is_ready(self) -> bool:
        text = self.log.read_text()
        if self.process.poll() is not None:
            raise RuntimeError(f"the worker ended\n{text}")
        return " ready." in text

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
