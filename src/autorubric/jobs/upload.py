"""Upload the files of a finished run to a bucket."""

import asyncio
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from autorubric.errors import ConfigError, InputError, UploadError, warn
from autorubric.files import write_atomically
from autorubric.files.remote import WRITABLE, check_address, check_writable, find_address, put, read_version
from autorubric.jobs.job import UploadedSettings
from autorubric.runs.manifest import MANIFEST_FILE
from autorubric.runs.run_folder import LEDGER_FOLDER, SPENT_FILE

UPLOADS_FILE = ".uploads.json"
"""In the run directory: the uploaded files, by address."""


_LOCAL = (LEDGER_FOLDER, SPENT_FILE)


async def check_upload(settings: UploadedSettings) -> None:
    """Refuse a destination that cannot be written or contains another run, before anything is spent.

    An empty object is written and deleted there; a dry run only checks the address.

    Raises:
        ConfigError: the destination refuses the upload or contains another run, or its address is invalid.
    """
    if settings.upload is None:
        return
    address = _parse_destination(settings.upload)
    if not settings.dry_run:
        await asyncio.to_thread(_check_destination, address, settings)


async def upload_finished(settings: UploadedSettings, *, complete: bool) -> None:
    """Upload the files of a complete run except the ledger, the manifest last; skip unchanged files.

    Raises:
        UploadError: the destination cannot be reached or refuses the upload.
    """
    if settings.upload is None:
        return
    address = _parse_destination(settings.upload)
    if not complete:
        warn(f"nothing was uploaded to {address}: the run is not complete")
        return
    try:
        await asyncio.to_thread(_upload, address, Path(settings.out))
    except InputError as error:
        raise UploadError(
            f"{error.problems[0]}\nall results are in {settings.out}; to retry the upload, run the same "
            "command again; it sends no requests"
        ) from error


def _parse_destination(value: str) -> str:
    address = find_address(value.rstrip("/"))
    if address is None:
        raise ConfigError(f"--upload {value!r} is not an address; expected s3://BUCKET/PATH or gs://BUCKET/PATH")
    check_address(address)
    scheme = address.partition(":")[0]
    if scheme not in WRITABLE:
        raise ConfigError(f"--upload {address}: {scheme}:// is only read; upload the run directory with `hf upload`")
    return address


def _check_destination(address: str, settings: UploadedSettings) -> None:
    out = Path(settings.out)
    check_writable(address)
    if settings.replace or address in _find_uploads(out):
        return
    if read_version(f"{address}/{MANIFEST_FILE}") is not None:
        raise ConfigError(
            f"--upload {address}: contains the files of another run; pass another address, or --replace to "
            "overwrite them"
        )


def _upload(address: str, out: Path) -> None:
    uploads = _find_uploads(out)
    done = uploads.setdefault(address, {})
    _save_uploads(out, uploads)
    for name in _list_names(out):
        target = f"{address}/{name}"
        digest = _hash_file(out / name)
        if done.get(name) == [digest, read_version(target)]:
            continue
        put(out / name, target)
        done[name] = [digest, read_version(target)]
        _save_uploads(out, uploads)


def _list_names(out: Path) -> Iterator[str]:
    """Yield the names of a run's files, the manifest last: if it exists, the upload is complete."""
    for path in sorted(out.rglob("*"), key=lambda path: (path.name == MANIFEST_FILE, path)):
        inner = path.relative_to(out)
        kept = any(part in _LOCAL or part.startswith((".", "replaced-")) for part in inner.parts)
        if path.is_file() and not kept:
            yield inner.as_posix()


def _hash_file(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _find_uploads(out: Path) -> dict[str, dict[str, list[str | None]]]:
    """Return the earlier uploads by address and name: local digest and remote version."""
    try:
        found = json.loads((out / UPLOADS_FILE).read_bytes())
    except (OSError, ValueError):
        return {}  # everything is uploaded again
    return found if isinstance(found, dict) and all(isinstance(entry, dict) for entry in found.values()) else {}


def _save_uploads(out: Path, uploads: dict[str, dict[str, list[str | None]]]) -> None:
    write_atomically(out / UPLOADS_FILE, [json.dumps(uploads, indent=1) + "\n"])
