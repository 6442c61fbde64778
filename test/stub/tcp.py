"""tcp.py DIR [SERVER_SOCKET]: listen on a port of 127.0.0.1, written to DIR/port, and pass connections on to a Unix socket.

Without SERVER_SOCKET nothing is ever answered.
"""

import asyncio
import os
import sys


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def main(folder, path=None):
    async def serve(reader, writer):
        if path is None:
            await reader.read()
            return
        server_reader, server_writer = await asyncio.open_unix_connection(path)
        await asyncio.gather(copy(reader, server_writer), copy(server_reader, writer))

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    with open(folder + "/port.new", "w") as file:
        file.write(str(server.sockets[0].getsockname()[1]))
    os.rename(folder + "/port.new", folder + "/port")
    await server.serve_forever()


asyncio.run(main(*sys.argv[1:]))
