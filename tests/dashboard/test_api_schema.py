"""Whatever is asked of the API, the answer is as its document says, and never an error of ours."""

from __future__ import annotations

from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings

from amqproxy.dashboard.settings import Settings
from tests.dashboard.conftest import CAPTURES, client_of
from tests.pipeline.known_tables import write_known_tables

pytestmark = [pytest.mark.slow, pytest.mark.once]

MODEST = settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.timeout(170)
def test_each_operation_answers_whatever_it_is_asked(tmp_path: Path) -> None:
    write_known_tables(tmp_path)
    asked = Settings(captures=(CAPTURES / "confirms.pcapng",), tables=str(tmp_path), hosts=("testserver",))
    with client_of(asked) as client:
        schema = schemathesis.openapi.from_dict(client.get("/api/v1/openapi.json").json())
        for result in schema.get_all_operations():
            operation = result.ok()

            @MODEST
            @given(operation.as_strategy())
            def check(case: schemathesis.Case) -> None:
                sent = case.as_transport_kwargs(base_url="http://127.0.0.1:8672")
                sent.pop("cookies", None)
                response = client.request(**sent)
                assert response.status_code < 500, (case, response.text)
                if response.status_code >= 400:
                    assert response.headers["content-type"] == "application/problem+json"

            check()
