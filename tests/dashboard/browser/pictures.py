"""The pictures of the dashboard in docs/images: `make pictures`. With Pillow installed they are a third as large."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pika
import pika.exceptions

from tests.dashboard.browser.stage import Stage
from tests.dashboard.browser.traffic import connected
from tests.dashboard.browser.watched_page import WatchedPage
from tests.real.require import require, require_module

IMAGES = Path(__file__).parents[3] / "docs" / "images"
SIZE = {"width": 1180, "height": 720}
SECONDS = 75.0
"""Time for which there is traffic before the first picture."""

COLOURS = 128
RULES = [
    {"name": "rename orders", "action": "rewrite", "when": "routing_key == 'order.old'", "routing_key": "order.new"},
    {"name": "tag gold customers", "action": "tag", "tags": ["gold"], "when": "headers['customer'] == 'ada'"},
]
QUEUES = {"billing": "order.#", "shipping": "order.eu.#", "mail.out": "order.mail.#"}
KEYS = ["order.eu.de", "order.eu.fr", "order.us.ny", "order.old"]


def sell(port: int, name: str, is_over: threading.Event) -> None:
    """Publish orders with confirms."""
    with connected(port, name) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        number = 0
        while not is_over.is_set():
            number += 1
            customer = random.choice(["ada", "grace", "linus"])
            order = {
                "id": number,
                "customer": customer,
                "lines": [{"sku": f"A-{number % 97}", "pieces": number % 5 + 1}],
            }
            properties = pika.BasicProperties(
                content_type="application/json", message_id=f"{name}-{number}", headers={"customer": customer}
            )
            with suppress(pika.exceptions.UnroutableError):
                channel.basic_publish("orders", random.choice(KEYS), json.dumps(order).encode(), properties)
            connection.process_data_events(random.expovariate(6))


def take(port: int, queue: str, is_over: threading.Event) -> None:
    """Consume from a queue, acknowledge most messages, and reject some."""
    with connected(port, f"{queue}-worker") as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        for method, _, _ in channel.consume(queue, inactivity_timeout=0.5):
            if is_over.is_set():
                return
            if method is not None and random.random() < 0.04:
                channel.basic_reject(method.delivery_tag, requeue=False)
            elif method is not None:
                channel.basic_ack(method.delivery_tag)


@contextmanager
def a_shop(port: int) -> Iterator[None]:
    """Publishers and consumers of orders, for as long as the block runs."""
    with connected(port, "deployment") as connection:
        channel = connection.channel()
        channel.exchange_declare("orders", "topic")
        channel.exchange_declare("audit", "fanout")
        channel.exchange_bind("audit", "orders", "order.#")
        for queue, key in QUEUES.items():
            channel.queue_declare(queue)
            channel.queue_bind(queue, "orders", key)
        channel.queue_declare("audit.log")
        channel.queue_bind("audit.log", "audit")
    is_over = threading.Event()
    threads = [threading.Thread(target=sell, args=(port, name, is_over)) for name in ("shop", "app")]
    threads += [
        threading.Thread(target=take, args=(port, queue, is_over)) for queue in ("billing", "shipping", "audit.log")
    ]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        is_over.set()
        for thread in threads:
            thread.join()


def draw(window: Any, url: str) -> None:
    """Take all pictures."""
    window.emulate_media(color_scheme="light", reduced_motion="reduce")
    window.goto(url + "topology")
    window.wait_for_timeout(5_000)
    keep(window, "topology")
    window.goto(url + "frames")
    window.wait_for_timeout(3_000)
    window.get_by_role("button", name="Pause").click()
    rows = window.get_by_role("grid", name="Frames").locator(".sheet").get_by_role("row").filter(visible=True)
    rows.filter(has_text="basic.publish").first.click()
    window.get_by_role("treeitem").filter(has_text="routing_key").first.hover()
    keep(window, "frames")
    window.emulate_media(color_scheme="dark", reduced_motion="reduce")
    window.goto(url + "overview")
    window.wait_for_timeout(12_000)  # until there is something to compare with
    keep(window, "overview")
    window.goto(url + "sequence?filter=method == 'basic.publish'")
    window.wait_for_timeout(2_000)
    keep(window, "sequence")


def keep(window: Any, name: str) -> None:
    """Write a picture, with few colours if that can be done."""
    path = IMAGES / f"dashboard-{name}.png"
    window.screenshot(path=path)
    with suppress(ImportError):
        with import_module("PIL.Image").open(path) as picture:
            few = picture.convert("RGB").quantize(COLOURS)
        few.save(path, optimize=True)


def main() -> None:
    api = require_module("playwright.sync_api", package="playwright")
    program = require("chromium-headless-shell")
    with TemporaryDirectory() as directory:
        running = Stage(Path(directory), rules=RULES)
        try:
            with a_shop(running.port), api.sync_playwright() as playwright:
                time.sleep(SECONDS)
                browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
                with WatchedPage.opened(browser) as page:
                    page.page.set_viewport_size(SIZE)
                    draw(page.page, running.url)
                browser.close()
        finally:
            running.kill()


if __name__ == "__main__":
    main()
