"""Number of earlier deliveries of a message, as SQL."""

from __future__ import annotations


def redelivery_count(seen: str) -> str:
    """Return the SQL of the number of earlier deliveries of a row: from the broker's headers, else as `seen`.

    A client may claim any number in these headers: one beyond 32 bits is none, so that no sum overflows.
    """
    return f"""coalesce(
    CASE WHEN contains(headers, '"x-delivery-count"')
        THEN try_cast(get_json_object(headers, '$.x-delivery-count') AS INT) END,
    CASE WHEN contains(headers, '"x-death"')
        THEN aggregate(
            transform(
                from_json(get_json_object(headers, '$.x-death'), 'array<struct<count: int>>'), each -> each.count
            ),
            0L, (total, deaths) -> total + deaths
        ) END,
    CASE WHEN redelivered THEN greatest(coalesce({seen}, 1L), 1L) ELSE 0L END
)"""
