"""Parts of every HTTP server here, the dashboard's and the management API's: asyncio processes with uvicorn.

`peers` bounds connections, by the client network (`client_network`) too; `protocols` are uvicorn's, which register
there. `server_log` writes the messages of uvicorn and asyncio to our log. `wrong_passwords` slows down guessing.
`child` is the child process's end of the pipe from its parent.

Imports: `amqproxy.process`, uvicorn and asyncio; never trio.
"""
