"""The notebook of the examples, as a reader would run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.real.require import require, require_module

pytestmark = [pytest.mark.once, pytest.mark.slow, pytest.mark.usefixtures("quick_spark_processes")]

NOTEBOOK = Path(__file__).parents[2] / "examples" / "pipeline.ipynb"


@pytest.mark.filterwarnings("ignore")  # of Jupyter's own
def test_the_notebook_runs_and_is_kept_without_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    require("java", package="openjdk-17-jre-headless")
    nbclient = require_module("nbclient", package="nbclient")
    nbformat = require_module("nbformat", package="nbformat")
    monkeypatch.setenv("CAPTURES", str(NOTEBOOK.parents[1] / "captures" / "confirms.pcapng"))
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in cells)
    nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(NOTEBOOK.parent)}}).execute()
    assert any("confirmed" in str(cell.outputs) for cell in cells)
