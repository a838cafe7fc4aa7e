"""Makes an environment for each server, and one for the tests; a server that cannot be installed is named, loudly.

Run as `python tests_servers/install.py FOLDER [SERVER ...]`. What is installed already stays. A server that failed
has a file FOLDER/NAME.failed with the reason, which the tests show again.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
CLIENT = "client"
_CUDA = "its wheels are built for CUDA; on a machine with a GPU name it: make test-servers SERVERS={}"
NEEDS_A_GPU = {name: _CUDA.format(name) for name in ("vllm", "sglang")}
SECONDS = 900
PIP = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")


def commands(name: str, folder: Path) -> list[list[str]]:
    """What installs an environment."""
    if name == CLIENT:
        repository = str(HERE.parent)
        pins = ["-c", str(HERE.parent / "constraints.txt")]
        python = [sys.executable, "-m", "venv", str(folder)]
        return [python, [str(folder / "bin" / "python"), *PIP, *pins, "-e", repository, "pytest", "pyyaml"]]
    if (HERE / "requirements" / f"{name}.npm").exists():
        package = (HERE / "requirements" / f"{name}.npm").read_text().strip()
        return [["npm", "install", "--no-audit", "--no-fund", "--prefix", str(folder), package]]
    requirements = HERE / "requirements" / f"{name}.txt"
    pip = [str(folder / "bin" / "python"), *PIP]
    # torch first: a plain `transformers` would take the newest build, with several gigabytes of CUDA.
    first = [line for line in requirements.read_text().splitlines() if line.startswith("torch==")]
    made = [[sys.executable, "-m", "venv", str(folder)], *([*pip, line] for line in first)]
    return [*made, [*pip, "-r", str(requirements)]]


def installed(name: str, root: Path) -> str:
    """Install one environment; the reason where that is not possible, empty where it worked."""
    folder, mark = root / name, root / f"{name}.made"
    wanted = "\n".join(" ".join(command) for command in commands(name, folder))
    wanted += "".join(path.read_text() for path in (HERE / "requirements").glob(f"{name}.*"))
    if mark.exists() and mark.read_text() == wanted:
        return ""
    shutil.rmtree(folder, ignore_errors=True)
    for command in commands(name, folder):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
        except FileNotFoundError as error:
            return f"{error.filename} is not installed"
        except subprocess.TimeoutExpired:
            return f"`{' '.join(command)}` did not end within {SECONDS} s"
        if done.returncode:
            lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
            errors = [line for line in lines if "error" in line.lower()] or lines or ["no reason given"]
            return errors[-1][:300]
    mark.write_text(wanted)
    return ""


def main(root: Path, wanted: list[str]) -> int:
    """Install everything; status 1 only where the tests themselves cannot run."""
    root.mkdir(exist_ok=True)
    known = sorted(path.stem for path in (HERE / "requirements").iterdir())
    for name in [CLIENT, *known]:
        failed = root / f"{name}.failed"
        failed.unlink(missing_ok=True)
        asked = not wanted or name in wanted or name == CLIENT
        skip = "not asked for" if not asked else "" if name in wanted else NEEDS_A_GPU.get(name, "")
        reason = skip or installed(name, root)
        if reason:
            failed.write_text(reason)
            print(f"tests_servers: {name} is NOT tested: {reason}", flush=True)
            if name == CLIENT:
                return 1
        else:
            print(f"tests_servers: {name} is installed", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
