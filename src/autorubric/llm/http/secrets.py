"""Keys: found in the environment, never printed by accident, and sent only to addresses that are fit for them."""

import hashlib
import ipaddress
import os
import re
import socket
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from pydantic import BeforeValidator

from autorubric.errors import ConfigError
from autorubric.files.text import read_text

HIDDEN = "<hidden>"

_SECRET_HEADER = re.compile(r"auth|key|token|secret|cookie|password|credential", re.IGNORECASE)
_LOOKS_LIKE_A_KEY = re.compile(
    r"\b(?:sk|gsk|xai|hf|pk|rk|fw)[-_][A-Za-z0-9_\-*]{8,}|\bAIza[\w\-]{16,}|(?<=Bearer )[^\s\"',}]{6,}"
)
_ESCAPED_ASCII = re.compile(r"\\(?:u00[2-7]|/)")
_SHORTEST_REPLACED = 6
_PREFIX = 8
"""A server may repeat the beginning of a key in an error; from this many characters on, it is hidden."""


@dataclass(frozen=True, slots=True)
class Secret:
    """A key that `repr` and `str` hide."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """Return the key itself, for the Authorization header only."""
        return self._value

    @property
    def fingerprint(self) -> str:
        """Eight hex digits that distinguish keys and reveal none."""
        return hashlib.blake2b(self._value.encode(), digest_size=4, person=b"autorubric-key").hexdigest()

    def __repr__(self) -> str:
        return f"Secret({HIDDEN})"

    __str__ = __repr__


_VARIABLE = re.compile(r"[A-Z_]+|(?=[A-Z0-9]*_)[A-Z_][A-Z0-9_]*")
_LONGEST_VARIABLE = 80

NO_VARIABLE = (
    "is not the name of an environment variable that is set; if it is the secret itself, put that into a variable "
    "and give the variable's name, such as OPENAI_API_KEY (the value is not repeated here)"
)


def is_variable_name(text: str, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether a text can be shown as the name of an environment variable: it is set, or no key looks like it.

    Example:
        >>> [is_variable_name(text, {"my_key": "1"}) for text in ("VLLM_API_KEY", "API_KEY_2", "my_key")]
        [True, True, True]
        >>> [is_variable_name(text, {}) for text in ("sk-abc", "my_key", "AKIA0123456789", "")]
        [False, False, False, False]
    """
    environ = os.environ if environ is None else environ
    if not text.isascii() or not text.isprintable():
        return False
    return text in environ or (len(text) <= _LONGEST_VARIABLE and _VARIABLE.fullmatch(text) is not None)


def _check_variable(value: Any) -> Any:
    if value is not None and not (isinstance(value, str) and is_variable_name(value)):
        raise ValueError(NO_VARIABLE)
    return value


VariableName = Annotated[str, BeforeValidator(_check_variable)]
"""The name of an environment variable; never the key itself."""


def is_secret_header(name: str) -> bool:
    """True if a header of this name usually carries a credential."""
    return _SECRET_HEADER.search(name) is not None


def drop_secret_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that may be shown and stored, in their order."""
    return {name: value for name, value in headers.items() if not is_secret_header(name)}


class HiddenHeaders(dict[str, str]):
    """Headers whose `repr`, as in debuggers and tracebacks with local variables, hides secrets."""

    def __repr__(self) -> str:
        shown = {name: HIDDEN if is_secret_header(name) else value for name, value in self.items()}
        return f"HiddenHeaders({shown!r})"


def redact(text: str, *secrets: str | None) -> str:
    """`text` with the given secrets, and everything shaped like a well-known key, replaced.

    Example:
        >>> redact("Incorrect API key provided: sk-abcdefgh12345")
        'Incorrect API key provided: <hidden>'
        >>> redact("Incorrect API key provided: my-own-se*****", "my-own-secret-key")
        'Incorrect API key provided: <hidden>'
    """
    text = hide_secrets(text, *secrets)
    for secret in secrets:
        if secret and len(secret) >= 2 * _PREFIX:
            text = re.sub(rf"{re.escape(secret[:_PREFIX])}[\w*-]*", HIDDEN, text)
    return _LOOKS_LIKE_A_KEY.sub(HIDDEN, text)


def hide_secrets(text: str, *secrets: str | None) -> str:
    r"""`text` with only the given secrets replaced, JSON escapes included: a reply may legitimately discuss keys.

    Example:
        >>> hide_secrets(r'{"said": "my-own-\u006bey-1"}', "my-own-key-1")
        '{"said": "<hidden>"}'
    """
    if not secrets:
        return text
    # Replacing a very short "key" such as EMPTY would hide ordinary words.
    known = [secret for secret in secrets if secret and len(secret) >= _SHORTEST_REPLACED]
    if known:
        escaped = _ESCAPED_ASCII.search(text) is not None
        for secret in known:
            text = text.replace(secret, HIDDEN)
            if escaped:
                text = re.sub("".join(map(_build_pattern, secret)), HIDDEN, text)
    return text


def _build_pattern(character: str) -> str:
    """Return a pattern for a character in JSON text; each nested quoting doubles its backslashes."""
    plain = r"\\{0,8}/" if character == "/" else re.escape(character)
    code = "".join(f"[{digit}{digit.upper()}]" if digit.isalpha() else digit for digit in f"{ord(character):04x}")
    return rf"(?:{plain}|\\{{1,8}}u{code})"


_OWN_ADDRESS = re.compile("@(?=https?://)", re.IGNORECASE)


def split_address(name: str) -> tuple[str, str | None]:
    """Return the model and the address of a `MODEL@BASE_URL`; None for a name without an address."""
    model, *address = _OWN_ADDRESS.split(name, maxsplit=1)
    return (model.strip(), address[0].strip()) if address else (name, None)


_RESOURCE = re.compile(
    r"/chat/completions$|"
    r"(?<=/v1)/(?:chat|completions|embeddings|messages|moderations|models(?:/.+)?|re-?rank|responses|(?:audio|images)/\w+)$"
)


def check_base_url(base_url: str, source: str = "base URL") -> str:
    """`base_url` without a trailing slash or the path of a resource, if a key may be sent there; a query is kept.

    Example:
        >>> check_base_url("https://host/v1/models/?x=1"), check_base_url("https://host/chat/completions")
        ('https://host/v1?x=1', 'https://host')

    Raises:
        ConfigError: not http(s), a fragment or something like a key in it, or a link-local address (where clouds
            serve the credentials of their machines).
    """
    url = base_url.strip()
    problem = _find_url_problem(url)
    if problem:
        shown = re.sub(r"//[^/@]*@", "//<hidden>@", url.partition("?")[0])
        raise ConfigError(f"{source} {shown!r} {problem}; expected something like https://host/v1")
    return cut_to_base(url)


def cut_to_base(url: str) -> str:
    """Return an address without a trailing slash or the path of a resource; a query is kept."""
    address, mark, query = url.strip().partition("?")
    return _RESOURCE.sub("", address.rstrip("/")).rstrip("/") + (mark + query if query else "")


def _find_url_problem(url: str) -> str | None:
    from yarl import URL

    if "," in url or url.count("://") > 1:
        return "contains several addresses; a model has one"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        # The host as the HTTP library will read it, which knows more ways to write a dot.
        called = URL(url).host if host else None
    except ValueError as error:
        return f"is not a URL ({error})"
    if parts.scheme not in ("http", "https") or not host or "\\" in url or not url.isprintable() or " " in url:
        return "is not an http or https URL"
    if not _is_host(host):
        return "has no host"
    if port == 0:
        return "has an invalid port"
    return _find_part_problem(parts, called or host)


def _find_part_problem(parts: SplitResult, host: str) -> str | None:
    if parts.username is not None or parts.password is not None:
        return "has credentials in it; pass the key as api_key or in the environment"
    if parts.fragment:
        return "has a fragment (#...); leave it out"
    named = [name for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    hidden = [name for name in named if is_secret_header(name) or name.lower() in _SECRET_PARAMETERS]
    if hidden:
        return (
            f"has {hidden[0]!r} in its query, which looks like a key; pass the key in the environment or as api_key"
        )
    name = _normalize_host(host)
    if name in _METADATA_NAMES or is_forbidden_address(name):
        return "is a link-local address, where keys are never sent"
    return None


_SECRET_PARAMETERS = ("sig", "signature", "code", "pass", "pwd")
_EMBEDDING = tuple(
    map(ipaddress.ip_network, ("::/96", "::ffff:0:0/96", "::ffff:0:0:0/96", "64:ff9b::/96", "64:ff9b:1::/48"))
)
"""IPv6 networks whose addresses end with an IPv4 address."""

_Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def _parse_addresses(host: str) -> tuple[_Address, ...]:
    """Return the IP address that `host` spells in any way resolvers accept (0xA9FEA9FE), and those embedded in it."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        try:
            return (ipaddress.IPv4Address(socket.inet_aton(host)),)
        except OSError:
            return ()
    if isinstance(address, ipaddress.IPv4Address):
        return (address,)
    last = [ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)] if any(address in n for n in _EMBEDDING) else []
    return (address, *last, *filter(None, (address.sixtofour, *(address.teredo or ()))))


def _is_host(host: str) -> bool:
    """Return whether `host` is an address or a valid domain name."""
    if _parse_addresses(host):
        return True
    try:
        name = host.rstrip(".").encode("idna").decode()
    except UnicodeError:
        return False
    return len(name) <= 253 and all(re.fullmatch(r"[A-Za-z0-9_](?:[\w-]{0,62})", part) for part in name.split("."))


_METADATA_NAMES = frozenset(
    {"metadata.google.internal", "metadata.goog", "metadata", "instance-data", "instance-data.ec2.internal"}
)
_METADATA_ADDRESSES = frozenset(
    map(
        ipaddress.ip_address,
        ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "168.63.129.16", "192.0.0.192"),
    )
)
"""Where clouds serve machine credentials, apart from link-local addresses."""


def _normalize_host(host: str) -> str:
    # Resolvers read full-width digits as digits, other scripts' dots as dots, and ignore a dot at the end.
    return unicodedata.normalize("NFKC", host).replace("\u3002", ".").rstrip(".").lower()


def is_forbidden_address(host: str) -> bool:
    """Return whether `host` is an IP address, in any spelling, that no key is ever sent to.

    Example:
        >>> is_forbidden_address("169.254.169.254"), is_forbidden_address("0xA9FEA9FE"), is_forbidden_address("::1")
        (True, True, False)
    """
    return any(address.is_link_local or address in _METADATA_ADDRESSES for address in _parse_addresses(host))


def is_loopback(host: str) -> bool:
    """True for this machine's own addresses."""
    return host == "localhost" or host.endswith(".localhost") or any(a.is_loopback for a in _parse_addresses(host))


_PRIVATE_NETWORKS = tuple(
    map(ipaddress.ip_network, ("0.0.0.0/32", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::/128", "fc00::/7"))
)
_PRIVATE_DOMAINS = (".local", ".internal", ".home.arpa")


def is_private(host: str) -> bool:
    """True for this machine and for private networks, where servers without TLS are common.

    These are loopback and private addresses (RFC 1918, RFC 4193), names without a dot (as in Docker Compose), and
    names under `.local`, `.internal` and `.home.arpa`, which no public name server resolves.

    Example:
        >>> [is_private(host) for host in ("localhost", "10.0.0.5", "vllm", "gpu1.local", "host.docker.internal")]
        [True, True, True, True, True]
        >>> [is_private(host) for host in ("8.8.8.8", "gpu.example.com", "134744072")]
        [False, False, False]
    """
    name = _normalize_host(host)
    if is_loopback(name):
        return True
    found = _parse_addresses(name)
    if not found:
        return "." not in name or name.endswith(_PRIVATE_DOMAINS)
    first = found[0]
    meant = first.ipv4_mapped or first if isinstance(first, ipaddress.IPv6Address) else first
    return any(meant in network for network in _PRIVATE_NETWORKS)


_LINE = re.compile(
    r"""^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"""
    r"""(?:'(?P<single>[^'\n]*)'|"(?P<double>[^"\n]*)"|(?P<bare>[^\s'"]\S*)?)[ \t]*(?:\#.*)?$""",
    re.MULTILINE | re.VERBOSE,
)
"""A line that sets a variable; keys contain neither space nor escapes, so nothing else needs parsing."""


def read_environment(key_env: str | None = None) -> Mapping[str, str]:
    """Return the environment, and behind it the API keys of the nearest `.env` at or above the working directory.

    Only `key_env` and names that end in `_API_KEY` are taken, so that a file cannot send keys elsewhere
    (`…_BASE_URL`, proxies), and nothing is written to `os.environ`. A file of another user is not read.
    """
    here = Path.cwd()
    path = next((path for place in (here, *here.parents) if (path := place / ".env").is_file()), None)
    if path is None or path.stat().st_uid not in (0, getattr(os, "geteuid", int)()) or not os.access(path, os.R_OK):
        return os.environ
    return {**parse_keys(read_text(path), key_env), **os.environ}


def parse_keys(text: str, key_env: str | None = None) -> dict[str, str]:
    r"""Return the API keys in the text of a `.env` file; variables in values are not expanded.

    Example:
        >>> parse_keys("OPENAI_API_KEY='sk-1'  # mine\nHTTPS_PROXY=http://proxy:1\nexport GROQ_API_KEY=gsk-2")
        {'OPENAI_API_KEY': 'sk-1', 'GROQ_API_KEY': 'gsk-2'}
    """
    found = {line["name"]: line["single"] or line["double"] or line["bare"] for line in _LINE.finditer(text)}
    return {name: value for name, value in found.items() if value and (name == key_env or name.endswith("_API_KEY"))}
