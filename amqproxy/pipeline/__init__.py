"""The data pipeline: makes tables of captures, and answers questions on them, with DuckDB or Spark.

    schema          every table: its columns, their types, units and meaning
    chains          capture files → chains: which files continue each other
    chain_reading   the files of a chain, decoded; unreadable parts are noted, and the next file is read
    trace_state     state of a chain between runs: open connections, partial frames
    event_reading   the files of a chain → Arrow batches of `events`; needs no Spark: event_rows makes rows of the
                    trace's events, property_values of messages' properties, pending_rows batches with event_columns,
                    stamps what is settled within a batch
                    body_fields, personal_data: fields of bodies, without their values
    frame_rows      the frames → Arrow batches of `frames`; needs no Spark
    frame_files     those → files of the table `frames`; needs no Spark
    late_captures   which captures are older than the part of their chain in the tables
    frame_table     captures → the table `frames`, whose files the engine's tasks write themselves
    source          the data source `amqp`: captures → the tables `frames` and `events`
    client_property client properties, as SQL
    settle          events → messages, deliveries, requests, connections, channels, errors, fields
    links           messages, deliveries → the publish of each delivery, and the clocks of hosts
    redelivery_count  number of earlier deliveries, as SQL
    kept_tables     results that several queries of a job read
    rollup          those → `rollup_minute`
    findings        events → findings
    anomalies       hourly measures → anomalies; anomaly_history keeps the measures between searches
    questions       tables → answers, one file per question; `report` shows them
    session         the Spark session of all jobs
    duck            a session on DuckDB in its place, which runs the same SQL text
    engine          the interface of both besides SQL: reading, writing, work on all cores
    small_input     small inputs, in one partition
    tables          tables on disk: formats, partitions, batches
    ledger          the captures that a directory of tables holds, each exactly once
    lost_parts      unreadable parts of captures, for a warning
    jobs, live      the jobs of `amqproxy pipeline`
    reading         tables without Spark, for the dashboard

The course of a connection is worked out once, by `amqproxy.taps.trace`; its events are rows of `events`, and all other
tables are made of those by plain DataFrame operations. Needs `amqproxy[pipeline]`.

The modules for executors (up to `source`) import `amqproxy.capture` and the packages below it, and the tshark engine if
needed: neither trio nor the dashboard.
"""
