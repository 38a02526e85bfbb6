"""Announces the Wyoming port on the local network (mDNS), where Home Assistant finds it by itself."""

from __future__ import annotations

import ipaddress
import logging
import socket
from typing import Any

from rhapsode.errors import MissingDependency
from rhapsode.extras import how_to_install
from rhapsode.serve.request.names import served_id
from rhapsode.serve.service import Service

log = logging.getLogger("rhapsode.serve")

KIND = "_wyoming._tcp.local."
MOST_NAME_CHARS = 60  # a name has at most 63 bytes


class WyomingAnnouncement:
    """Announces one port, until it is stopped."""

    def __init__(self, service: Service, listening: socket.socket) -> None:
        try:
            import zeroconf.asyncio
        except ModuleNotFoundError:
            raise MissingDependency(f"announcing the port needs zeroconf: {how_to_install('wyoming')}") from None
        self._library: Any = zeroconf
        self._host, self._port = listening.getsockname()[:2]
        name = f"{served_id(service.deployment)} on {socket.gethostname()}".encode("ascii", "replace").decode()
        self._name = f"{name.replace('.', '-')[:MOST_NAME_CHARS]}.{KIND}"
        self._running: Any = None

    async def start(self) -> None:
        """Announces the port. If that fails, for example without multicast, the server still serves."""
        is_everywhere = ipaddress.ip_address(self._host).is_unspecified
        addresses = self._library.get_all_addresses() if is_everywhere else [self._host]
        info = self._library.asyncio.AsyncServiceInfo(KIND, self._name, port=self._port, parsed_addresses=addresses)
        try:
            self._running = self._library.asyncio.AsyncZeroconf(interfaces=addresses)
            await self._running.async_register_service(info, allow_name_change=True)
        except (OSError, self._library.Error) as error:
            log.warning("the Wyoming port is not announced: %s", error)

    async def stop(self) -> None:
        if self._running is not None:
            await self._running.async_close()
