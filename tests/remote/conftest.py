"""An S3 server on loopback, and a bucket of its own for each test."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

import pytest

from tests.remote.s3 import Gate, Store, serving

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def gate() -> Iterator[tuple[Gate, dict[str, str]]]:
    with serving() as found, pytest.MonkeyPatch.context() as patch:
        from botocore.loaders import create_loader

        # Each client would read the models of S3 anew, which takes longer than a small test.
        patch.setattr("botocore.session.create_loader", cache(create_loader))
        yield found


@pytest.fixture
def store(gate: tuple[Gate, dict[str, str]], monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    import fsspec
    from botocore.session import Session

    front, environment = gate
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    fsspec.get_filesystem_class("s3").clear_instance_cache()
    client = Session().create_client("s3")
    bucket = f"bucket-{next(_numbers)}"
    client.create_bucket(Bucket=bucket)
    yield Store(front, client, bucket)
    front.open()
    client.close()
    fsspec.get_filesystem_class("s3").clear_instance_cache()
