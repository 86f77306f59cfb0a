"""The dashboard: what passes through proxies, or is in captures, in a browser.

A process of its own, in asyncio, that speaks to a proxy only through its control socket.

    server          uvicorn, and the sources that it shows: what `amqproxy dashboard` runs
      protocols     its protocols, with the bounds of `peers` on connections; `server_log`, its complaints in our log
      child         the same, started by `amqproxy run --dashboard`
      settings      what it was asked for
      app           the FastAPI application
        headers     checks of Host and Origin; headers of responses
        request_limits  how many requests of one address at once, and how large (client_network)
        auth        who may ask, and who it was
        problem     errors as RFC 9457 has them
        pages       the built page, from `static`; `api_page`, the API's documentation
        api/        REST, a router a file
        viewer      the WebSocket of one browser
          live_view a cursor of one list, with its filter and its credit
      collecting    keeps the pauses of Python's garbage collector short
    sources         all sources, by their numbers
      source        one proxy, or one capture
        capture_source  reads files
        proxy_source    follows a proxy: `packet_decoder`, `feed_pace`, `proxy_requests`, `proxy_sample`
      missing_frames  the row for what did not come here
    frame_batches   what was decoded, in parts, as the ring keeps it
      ring          what passed most recently, in numbered rows; bounded in bytes and rows
      observation   what happens, from the trace of each connection
        message_ring    messages and findings, in numbered rows (message_rates: how many a second)
        connections     how each was opened, and how it ended (shortening)
        frame_numbers   in which rows the frames are that findings name
        activity        how much there was, and how long it took
        shared_rows   its newest rows as JSON, for all browsers together
    list_query      which rows are asked for
      frame_selection, message_selection   a filter (viewer_filter), a connection, a channel
      selected      some frames of a packet, with their rows
      frame_query, message_query, ring_reading   finding them
      row_writer    frames as rows of JSON, from their bytes
    dissection      the fields of one frame, with the bytes that they are in (field)
      amqp010_dissection   the same of 0-10, whose values are in `amqp010_values`
    body_reader     has bodies read by processes of their own (body_child)
      body_views    bodies as JSON, MessagePack, Protobuf, Avro, hex
    sequence        who sent what to whom, as JSON
    replays         captures that are played to a broker, each by a process of its own (replay_child)
    rule_trial      what rules would have done, found out in a process of its own
    table_queries   questions about the tables of the pipeline, in threads
    pytest_export, rule_export   what passed, as a test and as a rule, in words of 0-9-1 (equivalent_command)

Imports: `amqproxy.capture`, `amqproxy.views`, `amqproxy.export`, of `amqproxy.pipeline` what needs no Spark, the
clients in `amqproxy.control`, and what is below them; never trio, the proxy or the broker.
"""
