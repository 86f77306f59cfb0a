"""What clients say of themselves, as SQL."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from amqproxy.pipeline.client_property import CLIENT_NAME, client_property

pytestmark = pytest.mark.once


def test_the_first_that_is_given_counts(spark: SparkSession) -> None:
    given = [
        {"connection_name": "shop", "product": "pika", "version": "1.3"},
        {"clientName": "jms", "qpid.client_process": "java", "product": "qpid", "qpid.client_version": "6.4"},
        {"qpid.client_process": "shop.py", "product": "qpid python client"},
        {"product": "bunny"},
        {},
    ]
    rows = spark.createDataFrame([(json.dumps(each),) for each in given], "client_properties string")
    version = client_property("version", "qpid.client_version")
    found = rows.selectExpr(f"{CLIENT_NAME} AS client", f"{version} AS version").collect()
    assert [each.client for each in found] == ["shop", "jms", "shop.py", "bunny", None]
    assert [each.version for each in found] == ["1.3", "6.4", None, None, None]
