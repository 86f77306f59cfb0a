"""The dashboard: a web interface for the traffic of proxies and captures.

It is a separate asyncio process, which speaks to a proxy only through its control socket.

    server          uvicorn with the application, as run by `amqproxy dashboard`
      child         the same as a child process of `amqproxy run --dashboard`
      settings      addresses, sources and permissions
      app           the FastAPI application
        headers     checks of Host and Origin; headers of responses
        request_limits  limits on concurrent requests and on bodies, per address
        auth        the token, logins and their cookies
        broker_logins   users of brokers, with which a browser changes them
        problem     errors as problem details (RFC 9457)
        pages       the built page, from `static`; `api_page`, the API's documentation
        api/        REST, one router per file
        viewer      the WebSocket of one browser
          live_view a cursor of one list, with its filter and its credit
      collecting    keeps the pauses of Python's garbage collector short
    sources         all sources, by number
      source        one proxy, or one capture
        capture_source  reads files
        proxy_source    follows a proxy: `feed_pace`, `proxy_sample`
      marks         comments on rows
      missing_frames  the row for frames that were lost on the way to the dashboard
    frame_batches   decoded traffic in small batches, as the ring keeps it
      ring          the most recent traffic in numbered rows; bounded in bytes and rows
      observation   messages, findings and connections, from the trace of each connection
        message_ring    messages and findings, in numbered rows
        connections     opening handshake, state and end of each connection (shortening)
          connection_table  the list of connections with versions: readers get what has changed
        flows           messages between a client (party) and an exchange or queue, by routing key
          observed_seconds  the seconds over which rates are computed
        error_log       the last errors
        traced_topology exchanges, queues, bindings and consumers of a capture
        subject         the page of a client, a user, an exchange or a queue
        frame_numbers   the rows of the frames that findings name
        activity        traffic volume and latencies per interval
        shared_rows   its newest rows as JSON, encoded once for all browsers
    list_query      the rows that a request asks for
      frame_selection, message_selection   a filter (viewer_filter, word_filter), a connection, a channel
      finding_selection   words, a connection, a channel
      completions   fields and values that complete a filter
      selected      some frames of a packet, with their rows
      frame_query, message_query, ring_reading   searches for them
      row_writer    frames as rows of JSON, from their bytes
    broker_objects  the integrated broker's objects, a page at a time
      policy_reach  what a policy would apply to
    dissection      the fields of one frame, with their byte ranges (field)
      amqp010_dissection   the same for 0-10, whose values are in `amqp010_values`
    body_reader     decodes bodies in child processes (`amqproxy.bodies`)
    sequence        sequence diagrams as JSON
    resend          a capture of one publish, which a replay sends
    replays         replays of captures to a broker, each in a child process (replay_child)
    workbench_runs  runs over queues, each in a child process (`amqproxy.workbench.run_program`)
    comparisons     comparisons of two captures, each in a child process
    rule_trial      trials of rules on observed traffic, in a child process
    table_queries   queries of the pipeline's tables, in threads
    pytest_export, rule_export   messages as a test and as a rule, in terms of 0-9-1 (equivalent_command)

Imports: `amqproxy.capture`, `amqproxy.views`, `amqproxy.export`, the parts of `amqproxy.pipeline` without Spark, the
clients in `amqproxy.control`, the tasks of `amqproxy.workbench`, `amqproxy.web`, and the modules below these; never
trio, the proxy or the broker.
"""
