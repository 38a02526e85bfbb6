"""TLS in front of a server, as a deployment has it: some clients take no other URL for WebSockets."""

from __future__ import annotations

import asyncio
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import trustme


@contextmanager
def behind_tls(port: int, folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields the https: URL of a proxy in front of a local port, and the file of the authority that it trusts."""
    authority = trustme.CA()
    trusted = folder / "authority.pem"
    authority.cert_pem.write_to_path(str(trusted))
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("localhost").configure_cert(context)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65_536):
                writer.write(data)
                await writer.drain()
            writer.close()
        except (OSError, ssl.SSLError, asyncio.CancelledError):
            writer.transport.abort()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, here = await asyncio.open_connection("127.0.0.1", port)
        with suppress(asyncio.CancelledError):
            await asyncio.gather(pipe(reader, here), pipe(there, writer))

    started = asyncio.run_coroutine_threadsafe(asyncio.start_server(serve, "127.0.0.1", 0, ssl=context), loop)
    server = started.result(30)
    try:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", trusted
    finally:
        asyncio.run_coroutine_threadsafe(_stop(server), loop).result(30)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(30)
        loop.close()


async def _stop(server: asyncio.Server) -> None:
    server.close()
    running = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    await asyncio.sleep(0.1)  # the last connections are closed by the loop
