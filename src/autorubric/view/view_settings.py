"""The settings of `autorubric view`."""

from collections.abc import Callable
from typing import Self

from pydantic import model_validator

from autorubric.errors import ConfigError
from autorubric.jobs.label_source import LabelChoice
from autorubric.settings import FileNames, setting


class ViewSettings(LabelChoice):
    """The settings of `autorubric view`."""

    runs: FileNames = setting(
        ...,
        "Run directories of any command, or a folder of run directories.",
        flag="RUN...",
        argument=True,
        many=True,
        group="Input",
        reads=True,
    )
    host: str = setting("127.0.0.1", "Address; a public one requires --token-env.", group="Service")
    port: int = setting(8200, "Port to listen on; 0 means any free port.", group="Service", ge=0, le=65535)
    token_env: str | None = setting(
        None, "Environment variable with the token that clients must send.", group="Service", secret=True
    )
    announce: Callable[[str], object] = setting(print, "Called with the address once it answers.", cli=False)

    @model_validator(mode="after")
    def _check_host(self) -> Self:
        if not self.host.isprintable():
            raise ConfigError(f"--host {self.host!a}; expected the name or the address of this machine")
        return self
