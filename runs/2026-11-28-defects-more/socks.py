"""A SOCKS5 proxy without authentication on a free loopback port. Prints the port, then a line for each connection."""

import asyncio


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def serve(reader, writer):
    await reader.readexactly((await reader.readexactly(2))[1])
    writer.write(b"\x05\x00")
    kind = (await reader.readexactly(4))[3]
    length = {1: 4, 4: 16}.get(kind) or (await reader.readexactly(1))[0]
    raw = await reader.readexactly(length)
    host = ".".join(map(str, raw)) if kind == 1 else raw.decode()
    port = int.from_bytes(await reader.readexactly(2), "big")
    print("connection through the proxy", flush=True)
    upstream = await asyncio.open_connection(host, port)
    writer.write(b"\x05\x00\x00\x01\x7f\x00\x00\x01\x00\x00")
    await asyncio.gather(copy(reader, upstream[1]), copy(upstream[0], writer))


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


asyncio.run(main())
