"""The data pipeline: captures become tables, and tables become answers, on Spark.

    schema       every table: its columns, their types, units and meaning
    chains       capture files → chains: which files continue each other
    chain_reading  the files of a chain, decoded; what cannot be read of one is noted, and the next is read
    trace_state  what a chain carries from one run to the next: open connections, half-seen frames
    event_reading  the files of a chain → Arrow batches of `events`; needs no Spark: event_rows makes rows of the
                 trace's events, property_values of messages' properties, pending_rows batches with event_columns,
                 stamps what is settled within a batch
    frame_rows   the frames → Arrow batches of `frames`; needs no Spark
    frame_files  those → files of the table `frames`; needs no Spark
    frame_table  captures → the table `frames`, whose files Spark's tasks write themselves
    source       the data source `amqp`: captures → the tables `frames` and `events`
    client_property  what clients say of themselves, as SQL
    settle       events → messages, deliveries, requests, connections, channels, errors
    rollup       those → `rollup_minute`
    findings     events → findings
    anomalies    what each hour is measured to be → anomalies; anomaly_history keeps that from one search to the next
    questions    tables → answers, a file a question; `report` shows them
    session      the Spark session that all of it runs in
    small_input  little to work on, in one partition
    tables       tables on disk: formats, partitions, batches
    ledger       which captures a directory of tables holds, each exactly once
    lost_parts   what could not be read of captures, for a warning
    jobs, live   what `amqproxy pipeline` runs
    reading      tables without Spark, for the dashboard

What happened on a connection is worked out once, by `amqproxy.taps.trace`; its events are rows of `events`, and all
other tables are made of those by plain DataFrame operations. Needs `amqproxy[pipeline]`.

What executors import (up to `source`) imports `amqproxy.capture` and what is below it, and the engine of tshark where
it is needed: neither trio nor the dashboard.
"""
