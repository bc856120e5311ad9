"""An agent's files: written beside a backup, and restored exactly.

What was done is kept in a record of its own, `setup-AGENT.json` in the folder for a user's state. A file that existed
is copied to `NAME.before-vllm-tool-proxy` beside it when it is changed for the first time, and never again: that is
what `restore` brings back. A file that somebody else has changed since is left alone by `restore`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proxy.agents.configuration import File
from proxy.agents.merging import dotted, in_the_way, merged, other_models
from proxy.agents.spans import NotMergeableError
from proxy.codec.json_text import load_json
from proxy.commands.exit_status import CommandError, Status
from proxy.limits import MAX_AGENT_FILE

SUFFIX = ".before-vllm-tool-proxy"
_FILE = 0o600
_FOLDER = 0o700


@dataclass(slots=True)
class _Change:
    """A change of one file: where its copy is (empty: it did not exist), the digest of what was left last, and
    whether somebody else had changed it before that.
    """

    backup: str
    written: str
    changed: bool = False


@dataclass(slots=True)
class _Record:
    """The record of the changes for an agent. `folders` were made, outer ones first; `first` is the digest of a command
    line that was run.
    """

    files: dict[str, _Change] = field(default_factory=dict)
    folders: list[str] = field(default_factory=list)
    first: str = ""


class AgentFiles:
    """The files of one agent below `home`; `state` is the folder of the record."""

    def __init__(self, agent: str, state: Path) -> None:
        self._path = state / f"setup-{agent}.json"
        self._record = _read_record(self._path)
        self._before = asdict(self._record)

    def write(self, files: Sequence[File]) -> list[str]:
        """Write what must be written; return a line for each file. Nothing is written unless all can be merged.

        Raises CommandError.
        """
        planned = [(_real(file.path), *self._plan(file)) for file in files]
        lines = []
        try:
            for path, before, after, note in planned:
                done = "nothing to change" if before == after else self._write(path, before, after)
                lines.append(f"{path}: {done}{note}")
        finally:
            self._save()
        return lines

    def run(self, words: Sequence[str], path: str, run: Callable[[], None]) -> str:
        """Let a command be run that writes a file, unless that was done and the file is as it was left; say so."""
        place = _real(path)
        digest = _digest("\0".join(words).encode())
        before = _bytes(place)
        change = self._record.files.get(str(place))
        if change is not None and self._record.first == digest and _digest(before or b"") == change.written:
            return f"{place}: nothing to change"
        note = self._keep(place, before)
        if before is not None:
            _narrow(place)  # before a key can stand in it
        try:
            run()
            after = _bytes(place)
            if after is None:
                raise CommandError(Status.NOT_WRITTEN, f"{words[0]} did not write {place}")
            _narrow(place)
            self._record.files[str(place)].written = _digest(after)
            self._record.first = digest
        finally:
            self._save()
        return f"{place}: written by {words[0]}{note}"

    def restore(self) -> list[str]:
        """Put all back as it was before the first time; return a line for each file.

        Raises CommandError, before anything is done, for a file that was changed since, and for a copy that is gone.
        """
        if not self._record.files:
            return ["nothing to undo"]
        for name, change in self._record.files.items():
            current = _bytes(Path(name))
            if change.changed or (current is not None and _digest(current) != change.written):
                was = f"what was there before is in {change.backup}" if change.backup else "it did not exist before"
                why = f"{name} was changed since it was written, so nothing is undone; {was}"
                raise CommandError(Status.NOT_WRITTEN, why)
            if change.backup and not Path(change.backup).exists():
                why = f"{change.backup}, which holds what was there before, is gone, so nothing is undone"
                raise CommandError(Status.NOT_WRITTEN, why)
        lines = []
        try:
            for name, change in [*self._record.files.items()]:
                lines.append(_put_back(name, change))
                del self._record.files[name]  # what is left can be undone later
        finally:
            self._save()
        self._path.unlink()
        for folder in reversed(self._record.folders):
            with contextlib.suppress(OSError):  # the agent has put something there
                Path(folder).rmdir()
        return lines

    def _plan(self, file: File) -> tuple[bytes | None, bytes, str]:
        """The file's bytes now, those that it shall have, and a note on what is taken out of it."""
        before = _bytes(_real(file.path))
        if before is not None and len(before) > MAX_AGENT_FILE:
            raise _unmergeable(file, "it is larger than 4 MB")
        try:
            text = (before or b"").decode()
            removed = ", ".join(map(dotted, in_the_way(text, file)))
            note = f"; taken out, as it would win over the proxy: {removed}" if removed else ""
            remaining = ", ".join(map(dotted, other_models(text, file)))
            if remaining:
                note += f"; left, though it goes past the proxy there: {remaining}"
            return before, merged(text, file).encode(), note
        except UnicodeDecodeError as error:
            raise _unmergeable(file, "it is no UTF-8") from error
        except NotMergeableError as error:
            raise _unmergeable(file, str(error)) from error

    def _write(self, path: Path, before: bytes | None, after: bytes) -> str:
        note = self._keep(path, before)
        mode = _FILE if before is None else path.stat().st_mode & 0o7777
        _replace(path, after, mode)
        self._record.files[str(path)].written = _digest(after)
        return f"written{note}"

    def _keep(self, path: Path, before: bytes | None) -> str:
        """Keep what a file holds, the first time; say where. The folders that it needs are made."""
        change = self._record.files.get(str(path))
        if change is not None and not (change.backup and not Path(change.backup).exists()):
            change.changed = change.changed or _digest(before or b"") != change.written
            return f"; what was there before is in {change.backup}" if change.backup else ""
        self._make(path.parent)
        if before is None:
            self._record.files[str(path)] = _Change("", _digest(b""))
            return ""
        backup = path.with_name(path.name + SUFFIX)
        if backup.exists():
            error_message = f"{backup} exists and is none of this record's; move it away, and try again"
            raise CommandError(Status.NOT_WRITTEN, error_message)
        _replace(backup, before, path.stat().st_mode & 0o7777)
        self._record.files[str(path)] = _Change(str(backup), _digest(before))
        return f"; what was there before is in {backup}"

    def _make(self, folder: Path) -> None:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        for each in reversed(missing):
            try:
                each.mkdir(_FOLDER)
            except OSError as error:
                raise CommandError(Status.NOT_WRITTEN, f"{each} cannot be made ({error.strerror})") from error
            self._record.folders.append(str(each))

    def _save(self) -> None:
        if asdict(self._record) == self._before:
            return
        self._make(self._path.parent)
        self._before = asdict(self._record)
        text = json.dumps(self._before, indent=2) + "\n"
        _replace(self._path, text.encode(), _FILE)


def _unmergeable(file: File, why: str) -> CommandError:
    error_message = f"{file.path} is left as it is: {why}; put in by hand what the command prints without --write"
    return CommandError(Status.NOT_WRITTEN, error_message)


def _real(path: str) -> Path:
    """The file itself: a link to it stays a link."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError) as error:  # links in a circle are no OSError up to Python 3.12
        raise CommandError(Status.NOT_WRITTEN, f"{path} cannot be read (links in a circle?)") from error


def _bytes(path: Path) -> bytes | None:
    """The bytes of a file; None if it does not exist. Raises CommandError, for what is no file too.

    A pipe has no end, and a device must not be replaced.
    """
    try:
        if path.exists() and not path.is_file():
            raise CommandError(Status.NOT_WRITTEN, f"{path} cannot be read (it is no file)")
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandError(Status.NOT_WRITTEN, f"{path} cannot be read ({error.strerror})") from error


def _put_back(name: str, change: _Change) -> str:
    """Put one file back as it was; say so. Raises CommandError."""
    try:
        if change.backup:
            os.replace(change.backup, name)
            return f"{name}: restored"
        Path(name).unlink(missing_ok=True)
        return f"{name}: removed, as it did not exist before"
    except OSError as error:
        raise CommandError(Status.NOT_WRITTEN, f"{name} cannot be put back ({error.strerror})") from error


def _narrow(path: Path) -> None:
    """Let nobody but its user read a file."""
    path.chmod(path.stat().st_mode & _FILE)


def _replace(path: Path, data: bytes, mode: int) -> None:
    """Write a file whole, with its mode, or leave it as it is. Raises CommandError."""
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(name, mode)
            os.replace(name, path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise CommandError(Status.NOT_WRITTEN, f"{path} cannot be written ({error.strerror})") from error


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _read_record(path: Path) -> _Record:
    try:
        record: Any = load_json(path.read_bytes())
        files = {name: _Change(**change) for name, change in record["files"].items()}
        return _Record(files, record["folders"], record["first"])
    except FileNotFoundError:
        return _Record()
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise CommandError(Status.NOT_WRITTEN, f"{path}, which tells what was written, cannot be read") from error
