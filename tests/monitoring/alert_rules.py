"""The alert rules, as tests read them."""

from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "monitoring"

ALERTS: list[dict[str, Any]] = [
    alert for group in yaml.safe_load((FOLDER / "alerts.yml").read_text())["groups"] for alert in group["rules"]
]
NAMES = [alert["alert"] for alert in ALERTS]
