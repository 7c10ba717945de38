"""The Host check: the server answers to what it was told to serve, whatever it listens on."""

import asyncio
import socket
from typing import Any

import httpx
import pytest
import uvicorn

from setpredict.cli.main import run
from setpredict.core.errors import UserError
from setpredict.web import server
from setpredict.web.catalog import Served
from setpredict.web.hosts import LOCAL, reach, requested_host, served_names
from tests.web.served import Running


def status(address: str, host: str) -> int:
    return httpx.get(f"{address}/healthz", headers={"host": host}).status_code


async def statuses(app: Any, hosts: list[str]) -> dict[str, int]:
    """The same without a server, over a connection to 10.9.9.9."""
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://10.9.9.9") as client:
        return {host: (await client.get("/healthz", headers={"host": host})).status_code for host in hosts}


@pytest.mark.parametrize("listens_on", ["127.0.0.1", "127.0.0.2", "0.0.0.0"])
def test_a_server_answers_to_its_own_names_only(models: dict[str, Served], listens_on: str):
    connects_to = "127.0.0.3" if listens_on == "0.0.0.0" else listens_on
    hosts = served_names(listens_on, listens_on, ["proxy.example"])
    with Running({"points-mlp": models["points-mlp"]}, hosts=hosts, address=listens_on) as address:
        address = address.replace(listens_on, connects_to)
        for host in (connects_to, "localhost", "LOCALHOST.:8000", "127.0.0.1:1", "[::1]:8000", "proxy.example:443"):
            assert status(address, host) == 200, host
        for host in ("evil.example", "127.0.0.9", "localhost.evil.example", "proxy.example.evil", "[::2]", "a b", "*",
                     "127.0.0.1:x", "localhost@evil.example", "[localhost]", ":8000", ""):  # fmt: skip
            assert status(address, host) == 400, host
        rejected = httpx.get(f"{address}/", headers={"host": "evil.example"})
        assert rejected.json()["detail"].startswith("this server does not answer to 'evil.example'; if it should,")
        assert rejected.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "0.0.0.0", "localhost"])
def test_serve_checks_the_host_whatever_it_listens_on(
    models: dict[str, Served], host: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
):
    """`setpredict serve --host HOST`, up to the point where it would wait for requests."""
    codes = {}

    def ask(self: uvicorn.Server, sockets: list[socket.socket]) -> None:
        names = [host, "evil.example", "mine.example", "also.example", socket.gethostname(), "10.9.9.9"]
        codes.update(asyncio.run(statuses(self.config.app, names)))

    monkeypatch.setattr(server, "load_catalog", lambda *_: {"points-mlp": models["points-mlp"]})
    monkeypatch.setattr(uvicorn.Server, "run", ask)
    names = ["--allowed-host", "mine.example", "--allowed-host", "also.example"]
    assert run(["serve", "--host", host, "--port", "0", *names]) == 0
    assert codes.pop("evil.example") == 400
    beyond = host == "0.0.0.0"
    assert codes.pop(socket.gethostname()) == (200 if beyond else 400)
    assert set(codes.values()) == {200}, codes
    loading, first, second = capsys.readouterr().out.splitlines()
    assert loading.startswith("Loading ")
    assert first.startswith(f"1 models. Open http://{'localhost' if beyond else host}:")
    assert second.startswith("Open beyond this machine" if beyond else "Only this machine can reach it")
    assert "mine.example, also.example" in second


def test_names_of_the_machine_count_beyond_loopback(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(socket, "gethostname", lambda: "Lab.example.org")
    machine = ["lab.example.org", "lab", "lab.local"]
    assert served_names("127.0.0.1", "127.0.0.1") == []
    assert served_names("127.0.0.2", "127.0.0.2") == ["127.0.0.2"]
    assert served_names("::1", "::1", ["A.example.", "[::2]"]) == ["a.example", "::2"]
    assert served_names("0.0.0.0", "0.0.0.0") == ["0.0.0.0", *machine]
    assert served_names("lab", "10.0.0.5", ["*"]) == ["lab", "lab.example.org", "lab.local", "*"]


@pytest.mark.parametrize("name", ["http://a.example", "a.example:80", "", "a b", "*.example", "[a]x"])
def test_an_allowed_host_must_be_a_name_or_an_address(name: str):
    with pytest.raises(UserError, match="--allowed-host must be a host name or an address without a port, got "):
        served_names("127.0.0.1", "127.0.0.1", [name])


def test_any_name_only_if_it_was_asked_for(models: dict[str, Served]):
    with Running({"points-mlp": models["points-mlp"]}, hosts=["*"]) as address:
        assert status(address, "evil.example") == 200


@pytest.mark.parametrize(("address", "names", "message"), [
    ("127.0.0.1", [], "Only this machine can reach it."),
    ("::1", ["a.example"], "Only this machine can reach it; it also answers to a.example."),
    ("10.0.0.5", ["10.0.0.5", "lab"], "Open beyond this machine, without a password: whoever can reach 10.0.0.5 "
     "can use it, by address or as lab."),
    ("::", ["::", "*"], "Open beyond this machine, without a password: whoever can reach any address of this machine "
     "can use it, by address or as any name."),
])  # fmt: skip
def test_one_line_says_who_can_reach_it(address: str, names: list[str], message: str):
    assert reach(address, names) == message


def test_addresses_are_compared_not_their_spelling():
    assert requested_host("[0:0:0:0:0:0:0:1]:8000") in LOCAL
    assert requested_host("[::ffff:127.0.0.1]") in LOCAL
    assert requested_host("::1") is None  # must be in brackets
