"""Write a model's entry into a rules file, as the first of `models`, because the first match counts.

    models:                                  models:
      # ours                                   - {"match": "Qwen3-8B", "parse": "proxy"}
      - {match: "*", parse: auto}     ->       # ours
                                               - {match: "*", parse: auto}

The rest of the file stays unchanged, and a backup of the old file is kept. The proxy's reader must find the entry in
the result.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from proxy.config.load import RulesText, builtin_text, read_file, rules_of
from proxy.config.rules import Rules
from proxy.errors import RulesError

# The key of the section, and its entries in the built-in file.
_SECTION = re.compile(r"^models:[ \t]*(#.*)?\r?\n", re.MULTILINE)
_ENTRIES = re.compile(r"^models:[^\n]*\n((?:[ \t]+[^\n]*\n|\n)+)", re.MULTILINE)
_ITEM = re.compile(r"([ \t]*)- ")


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing: the file, and the backup of the old file, None if there was no file.

    `infers_anew`: the new section changes how calls without a name are read (`Rules.legacy_file`).
    """

    file: Path
    backup: Path | None
    infers_anew: bool = False


def rules_in(file: Path) -> Rules:
    """Return the rules of a file, or the built-in ones if it does not exist; raises RulesError."""
    data = _read(file)
    return rules_of(builtin_text() if data is None else RulesText(data, str(file)))


def write_entry(file: Path, model: str, entry: str) -> Written:
    """Write a model's entry into a rules file. Raises RulesError, and then leaves the file unchanged."""
    file = Path(os.path.realpath(file))
    old = _read(file)
    new = merged(old, str(file), model, entry)
    was_legacy = old is not None and rules_of(RulesText(old, str(file))).legacy_file
    try:
        backup = None if old is None else _backed_up(file)
        replace_file(file, new, 0o644 if old is None else file.stat().st_mode & 0o7777)
    except OSError as error:
        message = f"{file}: cannot be written ({error.strerror}); check the folder and its permissions"
        raise RulesError(message) from None
    return Written(file, backup, was_legacy and not rules_of(RulesText(new, str(file))).legacy_file)


def merged(old: bytes | None, source: str, model: str, entry: str) -> bytes:
    """Return the text of a rules file with the entry. Raises RulesError if it must be edited by hand."""
    data = b"" if old is None else old
    if old is not None:
        rules_of(RulesText(old, source))  # Errors in the user's own lines are reported with their line.
    text = data.decode("utf-8", "surrogateescape")
    section = _SECTION.search(text)
    if section is not None:
        item = _ITEM.search(text, section.end())
        indent = "  " if item is None else item[1]
        text = f"{text[: section.end()]}{indent}{entry}\n{text[section.end() :]}"
    elif not re.search(r"^models:", text, re.MULTILINE):
        # A section replaces the built-in one, so the built-in entries follow.
        builtin = _ENTRIES.search(builtin_text().data.decode("utf-8"))
        assert builtin is not None, "the built-in file has entries of models"
        text += ("" if text.endswith("\n") or not text else "\n") + f"models:\n  {entry}\n{builtin[1]}"
    new = text.encode("utf-8", "surrogateescape")
    if not _says(new, source, model, entry):
        raise RulesError(f"{source}: the entry cannot be inserted; add it as the first of models: {entry}")
    return new


def _says(data: bytes, source: str, model: str, entry: str) -> bool:
    wanted = rules_of(RulesText(f"models:\n  {entry}\n".encode(), "the entry")).entry(model)
    try:
        return rules_of(RulesText(data, source)).entry(model) == wanted
    except RulesError:
        return False


def _read(file: Path) -> bytes | None:
    return read_file(file) if os.path.exists(file) else None


def _backed_up(file: Path) -> Path:
    """Copy the file under a new name next to it. Raises OSError."""
    names = (file.with_name(f"{file.name}.before-{number}") for number in count(1))
    backup = next(name for name in names if not os.path.lexists(name))
    shutil.copy2(file, backup)
    return backup


def replace_file(path: Path, data: bytes, mode: int) -> None:
    """Replace a file atomically, with its mode: readers see the old bytes or the new ones. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, mode)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
