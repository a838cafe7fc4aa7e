"""Objects in S3, Google Cloud Storage and on the Hugging Face Hub, through fsspec."""

import atexit
import logging
import re
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from typing import IO, Any

from autorubric.errors import ConfigError, InputError, MissingFileError
from autorubric.extras import require

SCHEMES = {"s3": "s3fs", "gs": "gcsfs", "hf": "huggingface_hub"}
"""Each scheme, and the package that reaches it."""

WRITABLE = ("s3", "gs")
"""Schemes of destinations. The Hub is not one, because every file would be a commit."""

PROBE = ".autorubric-write-test"
"""The empty object that shows whether a destination can be written."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):(/+)(.*)", re.DOTALL)
_CHUNK = 8 * 2**20
_MOST_PARTS = 9_000  # S3 takes 10,000
_copies: dict[tuple[object, ...], IO[bytes]] = {}
_copying = threading.Lock()


def find_address(path: str | Path) -> str | None:
    """Return the address in a path, or None for a local path. `pathlib` keeps one slash of `s3://`.

    Example:
        >>> find_address(Path("s3://bucket/rows.csv")), find_address("rows.csv"), find_address("C:/rows.csv")
        ('s3://bucket/rows.csv', None, None)
    """
    found = _ADDRESS.fullmatch(path.as_posix() if isinstance(path, PurePath) else str(path))
    if found is None:
        return None
    scheme, slashes, rest = found[1].lower(), found[2], found[3]
    return None if scheme not in SCHEMES and len(slashes) < 2 else f"{scheme}://{rest}"


def make_path(value: str | Path) -> Path:
    """Return a user's path, with `~` as the home directory; `find_address` converts the path of an address back.

    Raises:
        InputError: an address has an unknown scheme, no bucket, credentials, or parts that a path cannot contain, or
            the home directory is not known.

    Example:
        >>> make_path("ftp://host/rows.csv")
        Traceback (most recent call last):
        autorubric.errors.InputError: ftp://host/rows.csv: unknown scheme 'ftp'; expected s3://, gs:// or hf://
    """
    address = find_address(value)
    if address is not None:
        check_address(address)
    path = Path(value)
    if path.parts[:1] != ("~",):
        return path
    try:
        return path.expanduser()
    except RuntimeError:
        raise InputError(f"{path}: the home directory is not known; set HOME, or write the path in full") from None


def check_address(address: str) -> None:
    """Refuse an address that cannot be read or written, or whose package is not installed.

    Raises:
        InputError: see `make_path`.
    """
    scheme, _, rest = address.partition("://")
    shown = redact_credentials(address)
    if scheme in ("http", "https"):
        raise InputError(f"{shown}: http addresses are not read; download the file, or pipe it in with -")
    if scheme not in SCHEMES:
        raise InputError(f"{shown}: unknown scheme {scheme!r}; expected s3://, gs:// or hf://")
    bucket, _, key = rest.partition("/")
    if not bucket:
        raise InputError(f"{shown}: the address has no bucket; expected {scheme}://BUCKET/PATH")
    if scheme != "hf" and "@" in bucket:
        raise InputError(f"{shown}: leave credentials out of the address; they come from the environment")
    if any(part in ("", ".", "..") for part in key.removesuffix("/").split("/")) and key:
        raise InputError(f"{shown}: the address has an empty part, '.' or '..'; rename the object")
    require(("fsspec", SCHEMES[scheme]), "remote", f"{scheme}://")


def redact_credentials(text: str) -> str:
    """Remove user, password and query from the addresses in a text, and keys from mappings.

    Example:
        >>> redact_credentials("https://me:secret@host/rows.csv?signature=abc")
        'https://***@host/rows.csv?***'
        >>> redact_credentials("{'model': 'm', 'api_key': 'sk-abc', 'Authorization': 'Bearer a")
        "{'model': 'm', 'api_key': '***', 'Authorization': '***"
    """
    names = r"(?:key|token|secret|password|authorization)"
    text = re.sub(rf"(?i)({names}['\"]: )(['\"]).*?(\2|\Z)", r"\1\2***\3", text)
    hidden = re.sub(r"://[^/@\s'\"]*@", "://***@", text)
    return re.sub(r"(https?://[^?\s'\"]*\?)[^\s'\"]+", r"\1***", hidden)


def is_remote_folder(address: str) -> bool:
    """Return whether any object's name starts with the address and a slash.

    Raises:
        InputError: the storage cannot be reached or refuses.
    """
    with _storage_errors(address, "read"):
        return bool(_open_filesystem(address).isdir(address))


def is_remote_file(address: str) -> bool:
    """Return whether there is an object with this address.

    Raises:
        InputError: the storage cannot be reached or refuses.
    """
    with _storage_errors(address, "read"):
        return bool(_open_filesystem(address).isfile(address))


def list_objects(address: str) -> list[str]:
    """Return the addresses of all objects whose names start with the address and a slash, sorted.

    Raises:
        InputError: the storage cannot be reached or refuses.
    """
    with _storage_errors(address, "read"):
        return sorted(f"{address.partition(':')[0]}://{name}" for name in _open_filesystem(address).find(address))


def download(address: str, *, what: str = "File") -> IO[bytes]:
    """Return a temporary file with the bytes of an object; copied again only if the object has changed.

    Raises:
        MissingFileError: the object or bucket does not exist.
        InputError: it cannot be read completely.
    """
    check_address(address)
    with _storage_errors(address, "read", what):
        files = _open_filesystem(address)
        state = files.info(address)
        if state["type"] == "directory":
            raise InputError(f"{address}: cannot be read: it is a folder; expected a file")
        return cache_copy((address, _format_version(state)), lambda: _download(files, address, int(state["size"])))


def check_writable(address: str) -> None:
    """Write and delete an empty object under an address; it remains if deletion is not permitted.

    Raises:
        ConfigError: the destination does not exist or cannot be written.
    """
    probe = f"{address}/{PROBE}"
    try:
        with _storage_errors(address, "written", "Destination"):
            _open_filesystem(address).pipe_file(probe, b"")
    except InputError as error:
        raise ConfigError(f"--upload: {error.problems[0]}; nothing was spent") from error
    with suppress(Exception):
        _open_filesystem(address).rm_file(probe)


def read_version(address: str) -> str | None:
    """Return a string that changes when the object does; None if there is no object.

    Raises:
        InputError: the storage cannot be reached or refuses.
    """
    try:
        with _storage_errors(address, "read"):
            return _format_version(_open_filesystem(address).info(address))
    except MissingFileError:
        return None


def put(path: Path, address: str) -> None:
    """Write a file to an address; the object appears whole or not at all.

    Raises:
        InputError: the storage cannot be reached or refuses, or holds another size afterwards.
    """
    size = path.stat().st_size
    how: dict[str, Any] = {"chunksize": max(_CHUNK, -(-size // _MOST_PARTS))}
    if address.startswith("s3:"):
        how["max_concurrency"] = 2
    with _storage_errors(address, "written"):
        files = _open_filesystem(address)
        files.put_file(str(path), address, **how)
        written = int(files.info(address)["size"])
    if written != size:
        raise InputError(f"{address}: has {written:,} bytes after the upload of {size:,}")


def cache_copy(key: tuple[object, ...], copy: Callable[[], IO[bytes]]) -> IO[bytes]:
    """Return the temporary file of a key, made by `copy` on first use; it stays open until the process ends."""
    with _copying:
        if key not in _copies:
            _copies[key] = copy()
        return _copies[key]


@atexit.register
def _close_copies() -> None:
    for copy in _copies.values():
        copy.close()


def _open_filesystem(address: str) -> Any:
    import fsspec

    # These libraries log each attempt; without a handler, Python would print the log with our error.
    for name in ("botocore", "fsspec", "gcsfs", "huggingface_hub", "s3fs"):
        if not logging.getLogger(name).handlers:
            logging.getLogger(name).addHandler(logging.NullHandler())
    return fsspec.filesystem(address.partition(":")[0], use_listings_cache=False)


def _format_version(state: dict[str, Any]) -> str:
    names = ("size", "ETag", "etag", "generation", "blob_id", "LastModified", "updated", "last_commit")
    return repr([str(state.get(name)) for name in names])


def _download(files: Any, address: str, size: int) -> IO[bytes]:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    if size > free:
        raise InputError(
            f"{address}: has {size / 2**20:,.0f} MiB, and {folder}, where it is copied to, has "
            f"{free / 2**20:,.0f} MiB left; free some space, or set TMPDIR"
        )
    copy = tempfile.TemporaryFile()  # noqa: SIM115 (it stays until the process ends)
    try:
        with files.open(address, "rb", block_size=_CHUNK, cache_type="readahead") as source:
            shutil.copyfileobj(source, copy, _CHUNK)
        copy.flush()
        if copy.tell() != size:
            raise InputError(f"{address}: the stream ended after {copy.tell():,} of {size:,} bytes; try again")
    except BaseException:
        copy.close()
        raise
    return copy


@contextmanager
def _storage_errors(address: str, verb: str, what: str = "File") -> Iterator[None]:
    """Convert any error of the storage's library to an `InputError` that quotes it."""
    try:
        yield
    except InputError:
        raise
    except FileNotFoundError as error:
        message = _format_error(error)
        reason = "" if message.rstrip("/") in ("", address, address.partition("://")[2]) else f": {message}"
        raise MissingFileError(f"{what} not found: {address}{reason}") from error
    except Exception as error:  # the libraries' exceptions have no common base class
        raise InputError(f"{address}: cannot be {verb}: {_format_error(error)}") from error


def _format_error(error: BaseException) -> str:
    """Return the message of an error on one line, without credentials."""
    words = getattr(error, "strerror", None) or str(error) or type(error).__name__
    return redact_credentials(" ".join(str(words).split()))
