"""A model's entry put into a rules file: at the place where it counts, with all else in it as it was.

    models:                                  models:
      # ours                                   # ours
      - {match: "*", parse: auto}     ->       - {"match": "Qwen3-8B", "parse": "proxy"}
                                               - {match: "*", parse: auto}

An entry of the same `match` is replaced; the comments that stand in it stand before it then. What comes of it is read
as the proxy would, and must say what was wanted.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from yaml.nodes import CollectionNode, MappingNode, Node, ScalarNode, SequenceNode

from proxy.agents.spans import line_end
from proxy.config.load import RulesText, builtin_text, rules_of
from proxy.config.rules import Model, Rules, literal
from proxy.config.yaml_nodes import compose
from proxy.doctor.yaml_comments import comments_in, dash_before
from proxy.errors import RulesError

_BACKUPS = 1000
_BOM = "\ufeff"
# Of an entry within brackets.
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Written:
    """The result of writing: the file, and the copy of what it was before, or None if there was no file.

    `infers_anew`: the new section changes how the file reads calls without a name (`Rules.legacy_file`).
    """

    file: Path
    backup: Path | None
    infers_anew: bool = False


def rules_in(file: Path) -> Rules:
    """The rules of a file, or the built-in ones if there is no such file; raises RulesError."""
    data = _read(file)
    return rules_of(builtin_text() if data is None else RulesText(data, str(file)))


def write_entry(file: Path, model: str, entry: str) -> Written | None:
    """Put the line of a model's entry into a rules file; None if it says so already. Raises RulesError, and changes
    nothing then.
    """
    file = Path(os.path.realpath(file))
    old = _read(file)
    new = merged(old, str(file), model, entry)
    if new == old:
        return None
    backup = _backed_up(file) if old is not None else None
    infers_anew = old is not None and _rules(old, str(file)).legacy_file and not _rules(new, str(file)).legacy_file
    _replace(file, new)
    return Written(file, backup, infers_anew)


def merged(old: bytes | None, source: str, model: str, entry: str) -> bytes:
    """The bytes of a rules file with the entry in it. Raises RulesError if it cannot be put there."""
    if old is None:
        data = _new_section("", entry).encode()
    else:
        # Marks of YAML do not count the mark of the encoding.
        text = _text(old, source)
        plain = text.removeprefix(_BOM)
        data = (text[: len(text) - len(plain)] + _edited(plain, source, model, entry)).encode()
    wanted = _rules(f"models:\n  {entry}\n".encode(), "the entry").entry(model)
    if _entry_in(data, source, model) != wanted:
        raise RulesError(f"{source}: the entry cannot be put into this file; write it yourself: {entry}")
    return data


def _entry_in(data: bytes, source: str, model: str) -> Model | None:
    """The model's entry in what was made of a file; None if that cannot be read: its lines are none of the user's."""
    try:
        return _rules(data, source).entry(model)
    except RulesError:
        return None


def _rules(data: bytes, source: str) -> Rules:
    return rules_of(RulesText(data, source))


def _text(data: bytes, source: str) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise RulesError(f"{source}: is no UTF-8 text; save it as UTF-8") from None


def _edited(text: str, source: str, model: str, entry: str) -> str:
    _rules(text.encode(), source)  # what is wrong with the file is told by its line, before anything is changed
    root = compose(text.encode(), source)
    models = _value(root, "models")
    if models is None:
        return _new_section(text, entry)
    line = entry.removeprefix("- ")
    if isinstance(models, ScalarNode):  # nothing, which is an empty list
        start, end = models.start_mark.index, models.end_mark.index
        return f"{text[:start].rstrip(' ')} [{line}]{text[end:]}"
    assert isinstance(models, SequenceNode), "it was read as the rules"
    same = next((item for item in models.value if fnmatchcase(model, _match(item))), None)
    if same is not None and _match(same) == literal(model):
        return _replaced(text, models, same, line)
    if models.flow_style:
        at = models.start_mark.index + 1
        return text[:at] + line + (", " if models.value else "") + text[at:]
    at = models.start_mark.index
    return f"{text[:at]}- {line}{line_end(text)}{' ' * models.start_mark.column}{text[at:]}"


def _replaced(text: str, models: SequenceNode, same: Node, line: str) -> str:
    """The text with the line in the place of an entry, and behind the comments in that, each in a line of its own."""
    start, end = same.start_mark.index, _end(same)
    comments = comments_in(text, start, end)
    if models.flow_style:
        indent = f"{line_end(text)}{_INDENT}"
        above = "".join(f"{indent}{comment}" for comment in comments)
        before = text[:start] if not above else text[:start].rstrip(" ") + above + indent
        return before + line + text[end:]
    dash = dash_before(text, start)
    indent = f"{line_end(text)}{' ' * models.start_mark.column}"
    above = "".join(f"{comment}{indent}" for comment in comments)
    return text[:dash] + above + text[dash:start] + line + text[end:]


def _new_section(text: str, entry: str) -> str:
    """The text with a section of its own: the built-in entries must follow, for a section stands for all of them."""
    before = text if not text or text.endswith("\n") else f"{text}\n"
    lines = [f"  {entry}", *(f"  {line}" for line in _builtin_entries())]
    return before + "models:\n" + "\n".join(lines) + "\n"


def _builtin_entries() -> list[str]:
    """The lines of the built-in section `models`, as they stand there."""
    builtin = builtin_text()
    text = builtin.data.decode("utf-8")
    models = _value(compose(builtin.data, builtin.source), "models")
    assert isinstance(models, SequenceNode), "the built-in file has one"
    return [f"- {text[item.start_mark.index : _end(item)]}" for item in models.value]


def _value(root: Node | None, key: str) -> Node | None:
    if not isinstance(root, MappingNode):
        return None
    return next((value for name, value in root.value if name.value == key), None)


def _match(item: Node) -> str:
    value = _value(item, "match")
    return value.value if isinstance(value, ScalarNode) else ""


def _end(node: Node) -> int:
    """Where a node ends; the end of a block is told by what stands in it, for its own is behind the comments."""
    if not isinstance(node, CollectionNode) or node.flow_style or not node.value:
        return int(node.end_mark.index)
    last = node.value[-1]
    return _end(last[1] if isinstance(last, tuple) else last)


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RulesError(f"{file}: cannot be read ({error.strerror}); check the path and its permissions") from None


def _backed_up(file: Path) -> Path:
    """A copy beside the file, under a name that is not there yet."""
    for number in range(1, _BACKUPS):
        backup = file.with_name(f"{file.name}.before-{number}")
        try:
            with backup.open("xb"):
                pass
            shutil.copy2(file, backup)
            return backup
        except FileExistsError:
            continue
        except OSError as error:
            raise _unwritable(backup, error) from None
    raise RulesError(f"{file}: there are {_BACKUPS} backups beside it; remove some")


def _replace(file: Path, data: bytes) -> None:
    """Put the bytes in the file's place at once: whoever reads it sees the old ones or the new ones."""
    try:
        handle, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")
        try:
            with os.fdopen(handle, "wb") as new:
                new.write(data)
            os.chmod(name, file.stat().st_mode & 0o7777 if file.exists() else 0o644)
            os.replace(name, file)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise _unwritable(file, error) from None


def _unwritable(file: Path, error: OSError) -> RulesError:
    return RulesError(f"{file}: cannot be written ({error.strerror}); check the folder and its permissions")
