"""What the transport makes of answers and faults; no request is sent twice."""

from __future__ import annotations

import asyncio
import gc
import gzip
import os
import socket
import ssl
import subprocess
import sys
import warnings
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from aiohttp.http_exceptions import ContentEncodingError
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from autorubric.background import wait_for
from autorubric.llm.batches.link import BatchLink, LinkFault
from autorubric.llm.http import transport as transport_file
from autorubric.llm.http.retry import Backoff, classify_error
from autorubric.llm.http.transport import LARGEST_BODY, HttpReply, Transport, TransportError, translate_error
from autorubric.testing import LoopbackEndpoint
from tests.names import names
from tests.offenders import offenders

HEADERS = {"Authorization": "Bearer sk-planted", "Content-Type": "application/json"}


def answer(body: bytes = b"{}", *headers: str, status: str = "200 OK") -> bytes:
    """A response with a length."""
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return "\r\n".join([*lines, "", ""]).encode("latin-1") + body


@dataclass
class Server:
    """Answers the n-th request with the n-th answer, or the last one; None is no answer, b"" closes."""

    answers: tuple[bytes | None, ...]
    heads: list[str] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    at_work: set[asyncio.Task[None]] = field(default_factory=set)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1/chat/completions"

    def connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.at_work.add(asyncio.create_task(self.serve(reader, writer)))

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                self.heads.append(head)
                await reader.readexactly(int(head.partition("content-length:")[2].split()[0]))
                said = self.answers[min(len(self.heads), len(self.answers)) - 1]
                if said is not None:
                    writer.write(said)
                    await writer.drain()
                if said is not None and b"\r\nContent-Length: " not in said:
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(*answers: bytes | None) -> AsyncIterator[Server]:
    server = Server(answers)
    async with await asyncio.start_server(server.connected, "127.0.0.1", 0) as listening:
        server.port = listening.sockets[0].getsockname()[1]
        yield server
        await asyncio.wait_for(asyncio.gather(*server.at_work), 10)  # each ends when its client hangs up


async def outcome(transport: Transport, url: str, timeout: float = 5.0) -> HttpReply | tuple[str, bool, str]:
    """The reply; or the kind of the error, whether it may be billed, and its message, which never tells the key."""
    try:
        return await transport.post(url, HEADERS, b'{"a": 1}', timeout)
    except TransportError as error:
        assert "sk-planted" not in f"{error!r}{error.__cause__!r}{error.__context__!r}"
        return error.kind, error.maybe_billed, str(error)


TOO_LARGE = ("network", True, "the response is larger than 8 MiB")
RESET = ("network", True, "the connection was reset before the answer was complete")
BROKE_OFF = ("network", True, "the response body is incomplete")
BOMB = gzip.compress(bytes(2 * LARGEST_BODY), 1)

BODIES = {
    "with a length": (answer(b'{"b": 2}'), b'{"b": 2}'),
    "in chunks": (
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"b\r\n5\r\n": 2}\r\n0\r\n\r\n',
        b'{"b": 2}',
    ),
    "until the end": (b'HTTP/1.0 200 OK\r\n\r\n{"b": 2}', b'{"b": 2}'),
    "after early hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + answer(), b"{}"),
    "compressed": (answer(gzip.compress(b"{}"), "Content-Encoding: gzip"), b"{}"),
    "empty": (answer(b""), b""),
    "a long header": (answer(b"{}", f"Content-Security-Policy: {'x' * 60_000}"), b"{}"),
    "a header in Latin-1": (answer(b"{}", "X-Where: Zürich"), b"{}"),
    "line ends without CR": (b"HTTP/1.1 200 OK\nContent-Length: 2\n\n{}", b"{}"),
}
FAULTS: dict[str, tuple[bytes, tuple[str, bool, str]]] = {
    "no answer": (b"", RESET),
    "a part of the head": (b"HTTP/1.1 200 OK\r\nContent-Le", RESET),
    "a part of the body": (b"HTTP/1.1 200 OK\r\nContent-length: 20\r\n\r\n{}", BROKE_OFF),
    "a part of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab", BROKE_OFF),
    "broken compression": (answer(b"not gzip", "Content-Encoding: gzip"), BROKE_OFF),
    "a bomb": (answer(BOMB, "Content-Encoding: gzip"), TOO_LARGE),
    "a body without end": (b"HTTP/1.0 200 OK\r\n\r\n" + bytes(LARGEST_BODY + 1), TOO_LARGE),
    "a length without end": (b"HTTP/1.1 200 OK\r\nContent-Length: 999999999999\r\n\r\n{}", TOO_LARGE),
    "another protocol": (b"SSH-2.0-OpenSSH_9.2\r\n\r\n", ("network", True, "")),
    "two lengths": (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x", ("network", True, "")),
}


async def test_bodies_of_every_form_are_read() -> None:
    transport = Transport()
    with offenders() as case:
        for name, (said, body) in BODIES.items():
            with case(name):
                async with serving(said) as server:
                    found = await outcome(transport, server.url)
                    assert isinstance(found, HttpReply), found
                    assert (found.status, found.body) == (200, body)
                    await transport.close()


async def test_a_broken_answer_is_a_fault_that_may_be_billed_and_is_not_sent_again() -> None:
    transport = Transport()
    with offenders() as case:
        for name, (said, expected) in FAULTS.items():
            # On a fresh connection, and on one that has answered before, which a client might believe stale.
            for before in ((), (answer(),)):
                with case(f"{name} after {len(before)}"):
                    async with serving(*before, said) as server:
                        for _ in before:
                            assert isinstance(await outcome(transport, server.url), HttpReply)
                        found = await outcome(transport, server.url)
                        assert isinstance(found, tuple), found
                        assert found[:2] == expected[:2]
                        assert found[2].startswith(expected[2]), found
                        assert "400" not in found[2], "a status that the endpoint did not send"
                        assert len(server.heads) == len(before) + 1
                        await transport.close()


def test_an_answer_in_a_compression_that_cannot_be_read_is_a_fault_of_its_request_alone() -> None:
    for words in ("Can not decode content-encoding: brotli (br). Please install `Brotli`", "content-encoding: gzip"):
        fault = classify_error(translate_error(ContentEncodingError(message=words), 60))
        assert (fault.kind, fault.again, fault.status, fault.maybe_billed) == ("network", True, None, True)
        assert fault.message == f"the answer is not valid HTTP: {words}"


async def test_a_connection_is_kept_without_cookies_and_redirects_are_not_followed() -> None:
    moved = answer(b"", "Location: /elsewhere", "Set-Cookie: session=1; Path=/", status="307 Temporary Redirect")
    twice = answer(b"{}", "Retry-After: 7", "Date: Mon, 23 Nov 2026 09:00:00 GMT", "X-W: Zürich", status="429 Slow")
    transport = Transport()
    async with serving(answer(b"{}", "Set-Cookie: session=1; Path=/"), answer(), twice, moved) as server:
        found = [await outcome(transport, server.url) for _ in range(4)]
        assert [isinstance(reply, HttpReply) and reply.status for reply in found] == [200, 200, 429, 307]
        assert isinstance(found[2], HttpReply)
        assert found[2].headers["retry-after"] == found[2].headers["Retry-After"] == "7"
        assert found[2].headers.get("date") == found[2].headers["Date"]
        assert "retry-after-ms" not in found[2].headers
        assert server.connections == 1
        assert len(server.heads) == 4
        assert not any("\r\ncookie:" in head or "referer:" in head for head in server.heads)
        assert all("authorization: bearer sk-planted" in head for head in server.heads)
        await transport.close()


async def test_requests_to_one_address_have_the_headers_and_bodies_that_they_were_given() -> None:
    transport = Transport()
    async with serving(answer()) as server:
        lasting = {"Authorization": "Bearer lasting"}
        for number in range(100):
            await transport.post(server.url, {"Authorization": f"Bearer of-{number}"}, b"x" * (number + 1), 5.0)
            await transport.post(server.url, lasting, b"{}", 5.0)
        keys = [head.partition("authorization: bearer ")[2].split("\r\n")[0] for head in server.heads]
        assert keys == [key for number in range(100) for key in (f"of-{number}", "lasting")]
        sizes = [int(head.partition("content-length: ")[2].split()[0]) for head in server.heads]
        assert sizes == [size for number in range(100) for size in (number + 1, 2)]
        await transport.close()


async def test_late_answers_may_be_billed_and_refused_connections_are_not() -> None:
    drip = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"  # the rest never comes
    transport = Transport()
    with offenders() as case:
        for name, said in (("no answer", None), ("a part", drip)):
            with case(name):
                async with serving(said) as server:
                    late = ("timeout", True, "no complete answer within 0.2 s")
                    assert await outcome(transport, server.url, 0.2) == late
                    assert len(server.heads) == 1
        with case("refused"):
            found = await outcome(transport, "http://127.0.0.1:1/v1")
            assert isinstance(found, tuple)
            assert found[:2] == ("network", False)
            assert found[2] == "cannot connect to 127.0.0.1:1: Connection refused", found
        await transport.close()


async def test_a_host_that_does_not_answer_is_given_up_before_the_time_of_a_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(transport_file, "CONNECT_SECONDS", 0.3)
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    address = full.getsockname()
    waiting = [socket.socket() for _ in range(4)]  # fill the backlog: the system drops further connections
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(address)
    transport = Transport()
    link = BatchLink(f"http://127.0.0.1:{address[1]}", {}, 60.0, 3, Backoff(0.0, 0.0), ())
    try:
        words = "no connection within 0.3 s"
        assert await outcome(transport, f"http://127.0.0.1:{address[1]}/v1", 60.0) == ("timeout", False, words)
        with pytest.raises(LinkFault, match=words) as raised:
            await link.upload("/v1/files", {})
        assert (raised.value.fault.kind, raised.value.is_unclear) == ("unreachable", False)
    finally:
        await transport.close()
        await link.close()
        for one in (*waiting, full):
            one.close()


async def test_a_cancelled_request_ends_at_once_and_its_connection_serves_no_other() -> None:
    transport = Transport()
    async with serving(None, answer()) as server:  # leaves once each connection has ended
        call = asyncio.create_task(outcome(transport, server.url, 600.0))
        while not server.heads:
            await asyncio.sleep(0.001)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert isinstance(await outcome(transport, server.url), HttpReply)
        assert (server.connections, len(server.heads)) == (2, 2)
        await transport.close()


async def test_names_lead_to_their_addresses_but_never_to_a_link_local_one(monkeypatch: pytest.MonkeyPatch) -> None:
    forbidden = ["169.254.169.254", "fe80::1", "::ffff:169.254.169.254", "fd00:ec2::254"]
    world = {f"n{number}.example": [address] for number, address in enumerate(forbidden)}
    # Nothing listens at the first address, so that the second one is tried.
    world |= {"here.example": ["127.0.0.1"], "two.example": ["127.0.0.2", "127.0.0.1"]}
    world |= {"mixed.example": ["127.0.0.1", "169.254.169.254"]}
    monkeypatch.setattr(socket, "getaddrinfo", names(world))
    transport = Transport()
    with offenders() as case:
        async with serving(answer()) as server:
            for host in world:
                with case(host):
                    found = await outcome(transport, server.url.replace("127.0.0.1", host))
                    if host in ("here.example", "two.example"):
                        assert isinstance(found, HttpReply), found
                        assert f"\r\nhost: {host}:{server.port}\r\n" in server.heads[-1]
                    else:
                        assert isinstance(found, tuple)
                        assert found[:2] == ("network", False)
                        assert found[2].endswith("link-local address, where keys are never sent")
            with case("an unknown name"):
                found = await outcome(transport, "http://unknown.example/v1")
                expected = "cannot connect to unknown.example:80: Name or service not known"
                assert found == ("network", False, expected)
            assert len(server.heads) == 2
            await transport.close()


SIGNING = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=False,
    encipher_only=False,
    decipher_only=False,
)


def certified(folder: Path) -> ssl.SSLContext:
    """A server's certificate for `localhost`; its authority is at `folder / "ca.pem"`."""
    keys = [ec.generate_private_key(ec.SECP256R1()) for _ in range(2)]
    subjects = [x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)]) for name in ("authority", "server")]
    now = datetime.now(UTC)
    for number, (key, subject) in enumerate(zip(keys, subjects, strict=True)):
        made = x509.CertificateBuilder(subjects[0], subject, key.public_key(), number + 1)
        made = made.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=1))
        made = made.add_extension(x509.BasicConstraints(number == 0, None), critical=True)
        # Python 3.13 asks for identifiers of keys, and for the use of an authority's key.
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        if number == 0:
            made = made.add_extension(SIGNING, critical=True)
        else:
            authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(keys[0].public_key())
            made = made.add_extension(authority, critical=False)
            made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        pem = made.sign(keys[0], hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        (folder / ("server.pem" if number else "ca.pem")).write_bytes(pem)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(keys[1].private_bytes(*form))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "key.pem")
    return context


_POSTS = """
import asyncio, sys
from autorubric.llm.http.transport import Transport
async def post():
    transport = Transport()
    print((await transport.post(sys.argv[1], {}, b"{}", 5.0)).status)
    await transport.close()
asyncio.run(post())
"""


async def test_certificates_are_verified_against_the_authorities_of_the_environment(tmp_path: Path) -> None:
    server = Server((answer(),))
    async with await asyncio.start_server(server.connected, "127.0.0.1", 0, ssl=certified(tmp_path)) as listening:
        url = f"https://localhost:{listening.sockets[0].getsockname()[1]}/v1"
        transport = Transport()
        found = await outcome(transport, url)
        assert isinstance(found, tuple)
        assert found[:2] == ("network", False)
        assert "certificate" in found[2] and "SSL_CERT_FILE" in found[2]
        assert not server.heads
        await transport.close()
        # aiohttp reads the authorities when it is imported, hence a process of its own.
        environment = {**os.environ, "SSL_CERT_FILE": str(tmp_path / "ca.pem"), "PYTHONPATH": "src"}
        posting = await asyncio.create_subprocess_exec(
            sys.executable, "-c", _POSTS, url, stdout=subprocess.PIPE, env=environment
        )
        told, _ = await posting.communicate()
        assert told.decode().split() == ["200"]


async def test_a_proxy_of_the_environment_gets_the_whole_url_and_its_own_credentials(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transport = Transport()
    async with serving(answer()) as proxy:
        monkeypatch.setenv("http_proxy", f"http://me:pass@127.0.0.1:{proxy.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.delenv("NO_PROXY", raising=False)
        found = await outcome(transport, "http://gpu.example/v1")
        assert isinstance(found, HttpReply), found
        assert proxy.heads[0].startswith("post http://gpu.example/v1 http/1.1\r\n")
        assert "\r\nproxy-authorization: basic bwu6cgfzcw==\r\n" in proxy.heads[0]  # "me:pass"
        await transport.close()
    found = await outcome(transport, "http://gpu.example/v1")  # nothing listens there any more
    advice = "NO_PROXY lists the hosts that need no proxy"
    told = f"cannot connect to the proxy 127.0.0.1:{proxy.port}: Connection refused; {advice}"
    assert found == ("network", False, told)


@pytest.mark.usefixtures("only_new_collected")
def test_a_transport_is_made_without_an_event_loop_moves_between_them_and_can_be_used_after_its_end() -> None:
    async def post(transport: Transport, close: bool) -> bytes:
        async with serving(answer(b"there")) as server:
            server.answers = (answer(b"there", "Connection: close"),)
            found = await transport.post(server.url, {}, b"{}", 5.0)
            if close:
                await transport.close()
            return found.body

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        transport = Transport()
        asyncio.run(transport.close())
        assert [asyncio.run(post(transport, close)) for close in (False, False, True, False)] == [b"there"] * 4
        gc.collect()
        asyncio.run(transport.close())
        gc.collect()


@pytest.mark.usefixtures("only_new_collected")
def test_connections_of_a_model_that_nobody_closes_end_with_their_loop() -> None:
    transport = Transport()
    with LoopbackEndpoint().in_thread() as endpoint, warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            with asyncio.Runner() as runner:
                body = b'{"model": "m", "messages": [{"role": "user", "content": "Hi"}]}'
                assert runner.run(transport.post(f"{endpoint.base_url}/chat/completions", {}, body, 10)).status == 200
        gc.collect()
    assert [str(one.message) for one in found] == []


@pytest.mark.usefixtures("only_new_collected")
def test_connections_end_with_a_model_that_is_collected_in_a_cycle(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def post(url: str, among: list[object]) -> None:
        among += [among, Transport()]
        assert isinstance(among[1], Transport)
        await among[1].post(url, {}, b"{}", 10)

    async def collect_while_running() -> None:
        async with serving(answer()) as server:
            await post(server.url, [])
            gc.collect()

    def collect_in_another_thread(url: str) -> None:
        among: list[object] = []
        wait_for(post(url, among))
        among.clear()
        gc.collect()

    with LoopbackEndpoint().in_thread() as endpoint, offenders() as case:
        for name, collect in {
            "while its loop runs": lambda url: asyncio.run(collect_while_running()),  # waits for the connection's end
            "in another thread": collect_in_another_thread,
        }.items():
            with case(name), warnings.catch_warnings(record=True) as found:
                warnings.simplefilter("always")
                caplog.clear()
                collect(endpoint.base_url)
                assert [str(one.message) for one in found] == []
                assert [record.message for record in caplog.records if record.name == "asyncio"] == []
