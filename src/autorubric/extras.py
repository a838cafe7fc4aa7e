"""Packages that only some features need, and the extra of `autorubric-hub` that installs them."""

from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec

from autorubric.errors import MissingPackageError


def require(packages: Sequence[str], extra: str, purpose: str) -> None:
    """Raise an error if a package is not installed; call it before anything is spent.

    Args:
        packages: names that are imported.
        extra: the extra that installs them.
        purpose: the subject of the message.

    Raises:
        MissingPackageError: at least one of them is not installed.

    Example:
        >>> require(["json", "nowhere"], "checks", "check 'regex'")
        Traceback (most recent call last):
        autorubric.errors.MissingPackageError: check 'regex' needs nowhere; run: pip install 'autorubric-hub[checks]'
    """
    missing = [package for package in packages if not _is_installed(package)]
    if missing:
        raise MissingPackageError(f"{purpose} needs {', '.join(missing)}; run: pip install 'autorubric-hub[{extra}]'")


@lru_cache(maxsize=64)
def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ImportError:
        return False
