"""A Celery program that sets nothing: `python -m celery --app tests.real.celery_defaults worker …`.

BROKER is the URL of the broker; with CAREFUL set, it does what its findings ask for.
"""

import os

from celery import Celery


def application(url: str, *, is_careful: bool) -> Celery:
    """The same on both sides."""
    app = Celery("tests", broker=url)
    if is_careful:
        app.conf.broker_transport_options = {"confirm_publish": True}
    return app


app = application(os.environ.get("BROKER", ""), is_careful="CAREFUL" in os.environ)


@app.task(name="defaults.add")
def add(x: int, y: int) -> int:
    return x + y
