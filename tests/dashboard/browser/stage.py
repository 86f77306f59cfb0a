"""A proxy with the integrated broker and its dashboard, as a process."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import psutil

from tests.real.poll import until
from tests.real.proxy import Program, command

URL = re.compile(r"dashboard\b.*?\baddress\W+(https?://[^\s\"]+/)")


class Stage(Program):
    """`amqproxy run --upstream broker --dashboard`; `url` is the dashboard's, which has begun to answer."""

    def __init__(self, directory: Path, *, listen: int = 0, page: int = 0, **config: Any) -> None:
        """`listen` and `page` are the ports of the proxy and of the dashboard; with 0, any."""
        number = len(list(directory.glob("stage-*.log")))
        self.control = config.get("control", {}).get("path")
        file = directory / f"stage-{number}.yaml"
        file.write_text(
            json.dumps(
                {
                    "listen": [{"address": f"127.0.0.1:{listen}"}],
                    "upstream": "broker",
                    "dashboard": {"listen": f"127.0.0.1:{page}"},
                    **config,
                }
            )
        )
        super().__init__(directory / f"stage-{number}.log", *command(), "run", "--config", str(file))
        found = URL.search(self.log)
        assert found is not None, self.log
        self.url = found[1]
        try:
            until(self._has_source, "the dashboard to show the proxy")
        except BaseException:
            self.kill()
            raise

    def get(self, path: str) -> Any:
        """Return the API's answer."""
        with urlopen(f"{self.url}api/v1/{path}", timeout=60) as response:
            return json.load(response)

    def _has_source(self) -> bool:
        return any(each["state"] == "live" for each in self.get("sources"))

    @property
    def page_port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    @property
    def server(self) -> psutil.Process:
        """The process of the dashboard."""
        [child] = [each for each in self.psutil.children() if "amqproxy.dashboard.child" in each.cmdline()]
        return child


def box_of(place: Any) -> dict[str, float]:
    """The place of an element, scrolled into view and at rest."""
    place.hover()
    box: dict[str, float] | None = place.bounding_box()
    assert box is not None
    return box


class OwnDashboard(Program):
    """`amqproxy dashboard` at `url`."""

    def __init__(self, output: Path, *options: str) -> None:
        super().__init__(output, *command(), "dashboard", "--listen", "127.0.0.1:0", *options)
        found = URL.search(self.log)
        assert found is not None
        self.url = found[1]

    def is_following(self) -> bool:
        return self._has("live")

    def has_read(self) -> bool:
        """Whether a capture has been read to its end."""
        return self._has("ended")

    def _has(self, state: str) -> bool:
        with urlopen(f"{self.url}api/v1/sources", timeout=60) as response:
            return any(each["state"] == state for each in json.load(response))

    def _listening(self) -> int:
        found = re.search(r"dashboard\b.*?http://127\.0\.0\.1:(\d+)/", self.log)
        return int(found[1]) if found else 0
