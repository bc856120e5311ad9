"""An agent's files: written with a backup, and restored exactly.

`setup-AGENT.json` in the user's state folder records the changes. An existing file is copied to
`NAME.before-vllm-tool-proxy` next to it before its first change only; `restore` puts that copy back. It does not
restore a file that someone else has changed since.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from proxy.cli.configuration import File
from proxy.cli.merging import NotMergeableError, merged, own_models
from proxy.cli.output import CommandError, Status, reported
from proxy.doctor.rule import replace_file
from proxy.json import load_json
from proxy.limits import MAX_AGENT_FILE

SUFFIX = ".before-vllm-tool-proxy"
_PRIVATE = 0o600


@dataclass(slots=True)
class _Change:
    """A changed file: its backup (empty: the file did not exist), and the digest of the last content written.

    `changed`: someone else had changed the file before that.
    """

    backup: str
    written: str
    changed: bool = False


@dataclass(slots=True)
class _Record:
    """The changes for an agent, by file."""

    files: dict[str, _Change]


class AgentFiles:
    """The files of one agent. `state` is the folder of the record. All methods raise CommandError."""

    def __init__(self, agent: str, state: Path) -> None:
        self._path = state / f"setup-{agent}.json"
        try:
            self._record = msgspec.convert(load_json(self._path.read_bytes()), _Record)
        except FileNotFoundError:
            self._record = _Record({})
        except (OSError, ValueError, msgspec.ValidationError) as error:
            message = f"{self._path}, the record of what was written, cannot be read; restore the copies by hand"
            raise CommandError(Status.NOT_WRITTEN, message) from error
        self._saved = asdict(self._record)

    def write(self, files: Sequence[File], key: str = "") -> list[str]:
        """Merge all files; return a line for each. If one cannot be merged, nothing is written.

        A file that gets the proxy's `key` is for this user only.
        """
        planned = [(_real(file.path), *_plan(file, key)) for file in files]
        lines = []
        try:
            for path, before, after, is_secret, note in planned:
                if before == after:
                    lines.append(f"{path}: nothing to change{note}")
                    continue
                kept = self._keep(path, before)
                _replace(path, after, _PRIVATE if before is None or is_secret else path.stat().st_mode & 0o7777)
                self._record.files[str(path)].written = _digest(after)
                lines.append(f"{path}: written{kept}{note}")
        finally:
            self._save()
        return lines

    def restore(self) -> list[str]:
        """Restore all files; return a line for each.

        Nothing is restored if a file has changed since it was written, or if a copy is missing.
        """
        if not self._record.files:
            return ["nothing to undo"]
        for name, change in self._record.files.items():
            current = _bytes(Path(name))
            if change.changed or (current is not None and _digest(current) != change.written):
                was = f"the original is {change.backup}" if change.backup else "it did not exist before"
                message = f"{name} has changed since it was written, so nothing is restored; {was}"
                raise CommandError(Status.NOT_WRITTEN, message)
            if change.backup and not Path(change.backup).exists():
                message = f"{change.backup}, the copy of the original, is missing, so nothing is restored"
                raise CommandError(Status.NOT_WRITTEN, message)
        lines = []
        try:
            for name, change in [*self._record.files.items()]:
                with reported(name, "restored"):
                    if change.backup:
                        os.replace(change.backup, name)
                    else:
                        Path(name).unlink(missing_ok=True)
                lines.append(f"{name}: {'restored' if change.backup else 'removed, because it did not exist before'}")
                del self._record.files[name]  # the rest can be restored later
        finally:
            self._save()
        self._path.unlink()
        return lines

    def _keep(self, path: Path, before: bytes | None) -> str:
        """Copy a file before its first change, or create its folders; return a note on the copy."""
        change = self._record.files.get(str(path))
        if change is not None and not (change.backup and not Path(change.backup).exists()):
            change.changed = change.changed or _digest(before or b"") != change.written
            return f"; the original is {change.backup}" if change.backup else ""
        _make(path.parent)
        if before is None:
            self._record.files[str(path)] = _Change("", _digest(b""))
            return ""
        backup = path.with_name(path.name + SUFFIX)
        if backup.exists():
            message = f"{backup} exists, but was not made by this command; move it away, and try again"
            raise CommandError(Status.NOT_WRITTEN, message)
        _replace(backup, before, path.stat().st_mode & 0o7777)
        self._record.files[str(path)] = _Change(str(backup), _digest(before))
        return f"; the original is {backup}"

    def _save(self) -> None:
        if asdict(self._record) != self._saved:
            _make(self._path.parent)
            self._saved = asdict(self._record)
            _replace(self._path, (json.dumps(self._saved, indent=2) + "\n").encode(), _PRIVATE)


def _plan(file: File, key: str) -> tuple[bytes | None, bytes, bool, str]:
    """Return a file's bytes before and after, whether the proxy's key is in it, and a note on the user's agents."""
    try:
        before = _bytes(_real(file.path))
        if before is not None and len(before) > MAX_AGENT_FILE:
            raise NotMergeableError("it is larger than 4 MB")
        text = (before or b"").decode()
        agents = own_models(text, file)
        note = f"; these agents keep their own models: {', '.join(agents)}" if agents else ""
        is_secret = bool(key) and json.dumps(key) in json.dumps(file.content)
        return before, merged(text, file).encode(), is_secret, note
    except (NotMergeableError, UnicodeDecodeError) as error:
        why = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        message = f"{file.path} is unchanged: {why}; add by hand what the command prints without --write"
        raise CommandError(Status.NOT_WRITTEN, message) from error
    except UnicodeEncodeError as error:
        message = f"{file.path} is unchanged: it would name a path that is not UTF-8; give the agent another folder"
        raise CommandError(Status.NOT_WRITTEN, message) from error


def _make(folder: Path) -> None:
    with reported(folder, "created"):
        for each in reversed((folder, *folder.parents)):  # `parents=True` would ignore the mode for the outer ones
            each.mkdir(0o700, exist_ok=True)


def _real(path: str) -> Path:
    """Return the file that a symlink leads to, so that the link is kept."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:  # a loop is not an OSError up to Python 3.12
        raise CommandError(Status.NOT_WRITTEN, f"{path} cannot be read (a loop of symlinks?)") from error


def _bytes(path: Path) -> bytes | None:
    """Return the bytes of a file, or None if it does not exist. Raises CommandError.

    Only regular files are read: a pipe may never end, and a device must not be replaced.
    """
    with reported(path, "read"), contextlib.suppress(FileNotFoundError):
        if path.exists() and not path.is_file():
            raise CommandError(Status.NOT_WRITTEN, f"{path} cannot be read (not a regular file)")
        return path.read_bytes()
    return None


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Write a whole file with its mode, or leave it unchanged. Raises CommandError."""
    with reported(path, "written"):
        replace_file(path, data, mode)


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
