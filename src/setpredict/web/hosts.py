"""The Host check: a request must name the server by a name or an address that it was told to serve.

Without it, a web page of another site could read the server through its visitor's browser, by pointing a name of its
own at this machine (DNS rebinding). An address cannot be pointed elsewhere, so the one that a connection arrived at is
always accepted.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Collection, Iterable
from typing import Any

from starlette.responses import JSONResponse

from setpredict.core.errors import UserError

LOCAL = ("localhost", "127.0.0.1", "::1")
ANY = "*"
NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
HEADER = re.compile(r"(?:\[(?P<address>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::\d*)?")


class HostCheck:
    """ASGI middleware: a 400 for a request whose Host is not one of `names`, a local one, or the connection's own
    address."""

    def __init__(self, app: Any, names: Collection[str] = ()):
        self.app = app
        self.names = frozenset(names) | frozenset(LOCAL)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"host", b"").decode("latin-1")
        address = (scope.get("server") or ("",))[0]
        if scope["type"] != "http" or self._is_served(requested_host(given), address):
            await self.app(scope, receive, send)
            return
        reason = f"this server does not answer to {given[:100]!r}; if it should, start it with --allowed-host"
        await JSONResponse({"detail": reason}, 400)(scope, receive, send)

    def _is_served(self, host: str | None, address: str) -> bool:
        return ANY in self.names or host in self.names or (host is not None and host == as_host(address))


def requested_host(header: str) -> str | None:
    """The name or address in a Host header, without its port; None if it has neither.

    >>> requested_host("LocalHost:8000"), requested_host("[0:0::1]:80"), requested_host("a b")
    ('localhost', '::1', None)
    """
    found = HEADER.fullmatch(header)
    if found is None:
        return None
    if found["name"] is not None:
        return as_host(found["name"])
    return as_host(found["address"]) if ":" in found["address"] else None


def as_host(text: str) -> str | None:
    """A host name or an address in its usual spelling; None if it is neither.

    >>> as_host("Example.ORG."), as_host("0:0::1"), as_host("::ffff:10.0.0.1"), as_host("http://a")
    ('example.org', '::1', '10.0.0.1', None)
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0])  # fe80::1%eth0 is an address of the interface eth0
    except ValueError:
        name = text.lower().removesuffix(".")
        return name if NAME.fullmatch(name) else None
    return str(getattr(address, "ipv4_mapped", None) or address)


def served_names(host: str, address: str, allowed: Iterable[str] = ()) -> list[str]:
    """The names and addresses that a server answers to, beside local ones and each connection's own address.

    Args:
        host: What it was told to listen on: an address or a name.
        address: The address that it listens on; beyond loopback, the machine's own names count too.
        allowed: Further names or addresses; "*" is any.
    """
    names = [name for name in (as_host(host),) if name and name not in LOCAL]
    if not is_loopback(address):
        own = socket.gethostname().lower().removesuffix(".")
        names += [name for name in (own, own.split(".")[0], f"{own.split('.')[0]}.local") if NAME.fullmatch(name)]
    for given in allowed:
        name = ANY if given == ANY else as_host(given.removeprefix("[").removesuffix("]"))
        if name is None:
            raise UserError(f"--allowed-host must be a host name or an address without a port, got {given!r}")
        names.append(name)
    return list(dict.fromkeys(names))


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach an address."""
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def reach(address: str, names: Collection[str]) -> str:
    """Who can reach the server and by which names, in one line."""
    known = "any name" if ANY in names else ", ".join(name for name in names if name != address)
    if is_loopback(address):
        return "Only this machine can reach it" + (f"; it also answers to {known}." if known else ".")
    where = "any address of this machine" if _is_any_address(address) else address
    by_name = f" or as {known}" if known else ""
    return f"Open beyond this machine, without a password: whoever can reach {where} can use it, by address{by_name}."


def _is_any_address(text: str) -> bool:
    """0.0.0.0 or ::, which listens on all addresses of the machine."""
    try:
        return ipaddress.ip_address(text).is_unspecified
    except ValueError:
        return False
