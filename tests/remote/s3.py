"""A real S3 server on loopback, which can refuse requests and cut its replies."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SECRET = "planted-secret-0123456789"
_DENIED = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n'
    b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message><RequestId>1</RequestId></Error>"
)


@dataclass
class Gate:
    """Moto's S3 server behind a gate: `refuses` and `cuts` see the method and the path of each request."""

    behind: Any
    refuses: Callable[[str, str], bool] = lambda method, path: False
    cuts: Callable[[str, str], bool] = lambda method, path: False
    seen: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.seen.append((method, path))
        if self.refuses(method, path):
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            headers = [("Content-Type", "application/xml"), ("Content-Length", str(len(_DENIED)))]
            start_response("403 Forbidden", headers)
            return [_DENIED]
        reply = self.behind(environ, start_response)
        return [(whole := b"".join(reply))[: len(whole) // 2]] if self.cuts(method, path) else reply

    def open(self) -> None:
        """Refuse and cut nothing."""
        self.refuses = self.cuts = lambda method, path: False

    def written(self, bucket: str) -> list[str]:
        """The objects that were written, in order, without probes."""
        start = f"/{bucket}/"
        paths = [path.removeprefix(start) for method, path in self.seen if method == "PUT" and path.startswith(start)]
        return [path for path in paths if path and not path.endswith(".autorubric-write-test")]


@dataclass
class Store:
    """A bucket of its own for each test."""

    gate: Gate
    client: Any
    bucket: str

    def put(self, key: str, content: bytes | Path) -> str:
        """Store an object; its address."""
        body = content if isinstance(content, bytes) else content.read_bytes()
        self.client.put_object(Bucket=self.bucket, Key=key, Body=body)
        self.gate.seen.clear()
        return f"s3://{self.bucket}/{key}"

    def objects(self, prefix: str = "") -> dict[str, bytes]:
        """The objects under a prefix, by their names after it."""
        listed = self.client.list_objects_v2(Bucket=self.bucket, Prefix=prefix).get("Contents", [])
        return {
            one["Key"].removeprefix(prefix): self.client.get_object(Bucket=self.bucket, Key=one["Key"])["Body"].read()
            for one in listed
        }


_NEEDED = "remote files are NOT TESTED; install the dev extra: pip install -e '.[dev]'"


@contextmanager
def serving() -> Iterator[tuple[Gate, dict[str, str]]]:
    """The server on a port of its own, and the environment in which S3 is there; skips the test without moto."""
    for package in ("fsspec", "s3fs"):
        pytest.importorskip(package, reason=_NEEDED)
    moto = pytest.importorskip("moto.server", reason=_NEEDED)
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log(self, *_: object) -> None:
            pass

    gate = Gate(moto.DomainDispatcherApplication(moto.create_backend_app))
    server = make_server("127.0.0.1", 0, gate, threaded=True, request_handler=Quiet)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield (
        gate,
        {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}",
            "AWS_ACCESS_KEY_ID": "planted-key",
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_DEFAULT_REGION": "us-east-1",
        },
    )
    server.shutdown()
    thread.join()
    server.server_close()
