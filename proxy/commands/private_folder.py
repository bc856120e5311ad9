"""A folder that exists only while an agent runs."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from proxy.commands.exit_status import CommandError, Status

_FOLDER = 0o700
_FILE = 0o600
# Reads until no process holds the other end of its standard input. It is reparented to init, because an agent may wait
# for all of its children.
_REMOVE_AT_THE_END = """\
import os, shutil, sys
if os.fork():
    os._exit(0)
sys.stdin.buffer.read()
shutil.rmtree(sys.argv[1], ignore_errors=True)
"""


class PrivateFolder:
    """A folder for one run. It does not exist until its files are written."""

    def __init__(self) -> None:
        self.path = Path(tempfile.gettempdir()) / f"vllm-tool-proxy-{secrets.token_hex(8)}"

    @contextlib.contextmanager
    def written(self, texts: Mapping[str, str]) -> Iterator[tuple[int, ...]]:
        """Write these files, for this user alone. Without files, no folder is made.

        Yield the descriptors that the agent must inherit. Once no process holds them, the folder is removed, however
        the processes ended: SIGKILL included. Raises CommandError.
        """
        if not texts:
            yield ()
            return
        reading, writing = os.pipe()
        try:
            self._write(texts, reading)
            os.set_inheritable(writing, True)
            yield (writing,)
        finally:
            os.close(writing)

    def _write(self, texts: Mapping[str, str], reading: int) -> None:
        """Make the folder, start the process that removes it, and only then write into it."""
        try:
            self.path.mkdir(_FOLDER)  # fails if the name is taken
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", _REMOVE_AT_THE_END, str(self.path)],
                stdin=reading,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                start_new_session=True,  # Ctrl-C must not end it
                check=True,
            )
            for name, text in texts.items():
                descriptor = os.open(self.path / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _FILE)
                with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                    file.write(text)
        except (OSError, subprocess.SubprocessError) as error:
            raise CommandError(Status.NOT_WRITTEN, f"{self.path} cannot be written ({error})") from error
        finally:
            os.close(reading)
