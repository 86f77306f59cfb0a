"""The HTTP API of RabbitMQ's management plugin, for the integrated broker (`amqproxy broker --management`).

It is a separate asyncio process, which speaks to the broker only through its control socket, so that no request holds
up a publish: the broker answers in pieces, between which its clients have their turns. A request comes in by HTTP; an
answer goes out with the paths, keys, codes and texts of the RabbitMQ version that the broker behaves as.

    child           the process, as `amqproxy broker` starts it
      server        uvicorn with the application, and the limits of `amqproxy.web` on connections
      settings      the control socket, and the address
      app           the application: route, login, access, handler, response
        routes      the table of all paths; `route` matches them, and says who may use them in which versions
        body        bounds of bodies
        response_headers  what browsers may do, and which sites
        login       Basic authentication, which the broker checks
        access      access by user tags
        failure     errors as RabbitMQ answers them
        listing     sorting, pages, columns and selection by name, for all lists alike
        streamed_list  turns and memory of lists that are made while they are sent
    call            one request, with what handlers need
    broker_source   the broker behind the control socket
      recent_answers  totals and pages of large brokers, given again for up to five seconds
    resources/      a file for each resource: handlers, and the shapes of their rows

Imports: the clients in `amqproxy.control`, `amqproxy.web`, and the modules below these; never trio or the broker.
"""
