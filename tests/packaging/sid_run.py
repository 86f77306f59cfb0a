"""The sdist on the newest Python of Debian, which the machines of its stable release do not have: that of unstable."""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path

from tests.packaging.first_use import PROJECT, PUBLISH
from tests.packaging.fresh_debian import FreshDebian
from tests.packaging.stopwatch import Stopwatch

OLDEST = (3, 14)
"""What makes this worth while: the suite runs on older ones."""

DEMO = """
/venv/bin/amqproxy run --listen 127.0.0.1:5673 --upstream broker --metrics 127.0.0.1:9419 --dashboard &
proxy=$!
ready() { /venv/bin/python -c "import urllib.request as r; r.urlopen('http://127.0.0.1:9419/readyz')" 2>/dev/null; }
tries=0
until ready; do kill -0 $proxy; tries=$((tries + 1)); [ $tries -lt 600 ]; sleep 0.1; done
/venv/bin/python /root/publish.py amqp://guest:guest@127.0.0.1:5673/
kill -TERM $proxy
wait $proxy
"""


def run(directory: Path, sdist: Path) -> None:
    """See all of it; an AssertionError or Failed says what is wrong."""
    watch = Stopwatch("sid")
    debian = FreshDebian(directory / "base-sid", "sid").copied(directory / "sid")
    conf = debian.root / "etc/apt/apt.conf.d/snapshot"  # a mirror may be one, of weeks ago
    conf.write_text('Acquire::Check-Valid-Until "false";\n')
    debian.install("python3", "python3-venv")
    version = debian.run("python3 -c 'import sys; print(*sys.version_info[:3])'").split()
    assert tuple(map(int, version[:2])) >= OLDEST, version
    watch.say(f"Debian's unstable with Python {'.'.join(version)}")

    shutil.copy(sdist, debian.root / "root" / sdist.name)
    wanted = shlex.join([f"/root/{sdist.name}[dashboard,pytest]", "pika"])
    debian.run(f"python3 -m venv /venv && /venv/bin/pip install -q --only-binary :all: --no-binary amqproxy {wanted}")
    said, _hint = debian.run("/venv/bin/amqproxy version").splitlines()
    assert said.endswith("(plain)"), said
    watch.say(f"pip install {sdist.name}[dashboard,pytest]: {said}")

    (debian.root / "root/publish.py").write_text(PUBLISH)
    assert "b'7'" in debian.run(DEMO, has_network=False).split()
    (debian.root / "root/test_orders.py").write_text(PROJECT)
    tried = debian.run("cd /root && /venv/bin/pytest -q -p no:cacheprovider test_orders.py", has_network=False)
    assert "1 passed" in tried, tried
    watch.say("a client was served, and the pytest plugin used")
