"""Keys of the rules file that went or have another name since an earlier release, in one table.

A file that still has one is an error which says what to write (`refuse_removed`); `check --migrate` prints the new file
(`migrate`). Only what is in the table changes: all other lines stay as they are, with their comments. What cannot be
carried over gives way to a comment that says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from proxy.config.server_url import ONE_SERVER
from proxy.config.yaml_nodes import compose, node_error, place_of
from proxy.errors import RulesError

_DIGEST = re.compile(r"[0-9a-fA-F]{64}")
_COMMAND = "vllm-tool-proxy check --migrate prints the new file"
_PLAIN = re.compile(r"[A-Za-z0-9_./-](?:[A-Za-z0-9_./:-]*[A-Za-z0-9_./-])?")
_CLIENT = "give the key client: NAME in the file of client_keys"


@dataclass(frozen=True, slots=True)
class RemovedKey:
    """A removed key in a file: `owner` is the entry that it stands in, a client's name for example."""

    owner: str
    key: ScalarNode
    value: Node


@dataclass(frozen=True, slots=True)
class Rewritten:
    """The replacement of a key: another key with its value (none: it goes), and comment lines above it."""

    key: str = ""
    value: str = ""
    notes: tuple[str, ...] = ()

    @property
    def line(self) -> str:
        """The key and its value as YAML, also in braces; "" if the key goes."""
        if not self.key:
            return ""
        plain = _PLAIN.fullmatch(self.value)
        spelled = self.value if plain else "'" + self.value.replace("'", "''") + "'"
        return f"{self.key}: {spelled}"


@dataclass(frozen=True, slots=True)
class _Edit:
    """The characters from `start` to `end` give way to `text`."""

    start: int
    end: int
    text: str


@dataclass(frozen=True, slots=True)
class Migration:
    """A removed or renamed key.

    `section` is where it stood (`clients.*`, `models[]`, `settings`), `since` the release in which it went, `remedy`
    what to do instead, for the error. A key that stays may lose a form: `form` is what that was, and `applies` says
    which values have it.
    """

    section: str
    key: str
    since: str
    remedy: str
    rewrite: Callable[[RemovedKey], Rewritten]
    applies: Callable[[Node], bool] = lambda _: True
    form: str = ""

    @property
    def name(self) -> str:
        """What went, as the error and docs/rules.md call it: `settings.upstream as a list`."""
        return f"{self.section}.{self.key}{self.form}"


def _client_keys(removed: RemovedKey) -> Rewritten:
    """`key_sha256: [2c26…]` of the client `agent` -> the entries for the file of client keys."""
    digests = [text for text in _texts(removed.value) if _DIGEST.fullmatch(text)]
    name = removed.owner[:60]
    entries = (
        f"- {{name: {name}-{number}, sha256: {digest}, client: {removed.owner}}}"
        for number, digest in enumerate(digests, 1)
    )
    notes = (
        "key_sha256 went in 0.2.0: put these lines into the file that the setting client_keys names. Every request",
        "then needs a key, and none goes up to the model server unless pass_auth is set (docs/security.md).",
    )
    return Rewritten(notes=(*notes, *entries))


def _audit_size(removed: RemovedKey) -> Rewritten:
    notes = (
        f"audit_size ({_texts(removed.value)[0]}) went in 0.2.0: logrotate begins a new audit file (deploy/logrotate);",
        "audit_max bounds it where no logrotate runs (docs/operations.md).",
    )
    return Rewritten(notes=notes)


def _servers(removed: RemovedKey) -> Rewritten:
    """`servers: [URL]` -> `url: URL`."""
    return _first_server("url", removed)


def _upstreams(removed: RemovedKey) -> Rewritten:
    """`upstream: [URL, URL]` -> `upstream: URL`."""
    return _first_server("upstream", removed)


def _first_server(key: str, removed: RemovedKey) -> Rewritten:
    """The first of the servers stays, so that requests go where they went; several equal ones need a balancer."""
    spelled = [url.strip() for text in _texts(removed.value) for url in text.split(",")]
    urls = [*dict.fromkeys(filter(None, spelled))]
    old = removed.key.value
    if not urls:
        return Rewritten(notes=(f"{old} named no server, and went in 0.2.0",))
    if len(urls) == 1:
        return Rewritten(key, urls[0])
    notes = (
        f"{old} ({' '.join(urls)}) is one URL since 0.2.0: the first one's. Put the servers behind HAProxy",
        f"(docs/scale.md, deploy/haproxy) and write its URL here, as {key}: http://HAPROXY:PORT",
    )
    return Rewritten(key, urls[0], notes)


def _is_several(value: Node) -> bool:
    return isinstance(value, SequenceNode) or any("," in text for text in _texts(value))


MIGRATIONS = (
    Migration("clients.*", "key_sha256", "0.2.0", _CLIENT, _client_keys),
    Migration("settings", "audit_size", "0.2.0", "use logrotate, and audit_max where none runs", _audit_size),
    Migration("models[]", "servers", "0.2.0", f"write url: {ONE_SERVER}", _servers),
    Migration("settings", "upstream", "0.2.0", f"write {ONE_SERVER}", _upstreams, _is_several, " as a list"),
)


def refuse_removed(node: Node, section: str, known: Collection[str]) -> None:
    """Raise RulesError, with its line, for a key of the mapping that was removed; one that is `known` was not."""
    for removed, migration in _in_mapping(node, section, ""):
        if migration.key not in known:
            words = f"{migration.name} went in {migration.since}; {migration.remedy} ({_COMMAND})"
            raise node_error(removed.key, words)


def removed_setting(name: str) -> str:
    """The advice for a setting that went, for the error of its line, flag or variable; "" if there was none."""
    for migration in MIGRATIONS:
        if (migration.section, migration.key, migration.form) == ("settings", name, ""):
            return f"it went in {migration.since}; {migration.remedy}"
    return ""


def migrate(text: bytes, source: str) -> tuple[bytes, tuple[str, ...]]:
    """The rules file in the form of this release, and a line `SOURCE:LINE: key` for each change.

    Raises RulesError if it is no YAML, or if lines cannot be edited without harm to others.
    """
    root = compose(text, source)
    if root is None:
        return text, ()
    removed_keys = [*_in_file(root)]
    if not removed_keys:
        return text, ()
    old = text.decode("utf-8-sig")
    new = {_index(each): migration.rewrite(each) for each, migration in removed_keys}
    edits = [edit for each, _ in removed_keys for edit in _edits(old, each, new[_index(each)])]
    data = _edited(old, edits).encode("utf-8")
    if _outline(root, new) != _outline_of(data, source):
        raise RulesError(f"{source}: this file cannot be migrated line by line; take the removed keys out by hand")
    return data, tuple(f"{place_of(each.key)}: {migration.key}" for each, migration in removed_keys)


def _outline_of(data: bytes, source: str) -> object:
    try:
        root = compose(data, source)
    except RulesError:
        return None
    if root is None:
        return ""
    return _outline(root, {})


def _outline(node: Node, new: Mapping[int, Rewritten]) -> object:
    """All words of a tree, to compare two; `new` has what stands for some keys and their values."""
    if isinstance(node, SequenceNode):
        return [_outline(item, new) for item in node.value]
    if not isinstance(node, MappingNode):
        return node.value
    pairs: list[tuple[object, object]] = []
    for key, value in node.value:
        rewritten = new.get(key.start_mark.index)
        if rewritten is None:
            pairs.append((_outline(key, new), _outline(value, new)))
        elif rewritten.key:
            pairs.append((rewritten.key, rewritten.value))
    return pairs or ""  # a key whose mapping is empty now may have no value


def _in_file(root: Node) -> Iterator[tuple[RemovedKey, Migration]]:
    """The removed keys of a file, in their order within each section."""
    for section, value in _pairs(root):
        match section.value:
            case "settings":
                yield from _in_mapping(value, "settings", "")
            case "models" if isinstance(value, SequenceNode):
                for model in value.value:
                    yield from _in_mapping(model, "models[]", "")
            case "clients":
                for name, client in _pairs(value):
                    yield from _in_mapping(client, "clients.*", str(name.value))


def _in_mapping(node: Node, section: str, owner: str) -> Iterator[tuple[RemovedKey, Migration]]:
    for key, value in _pairs(node):
        for migration in MIGRATIONS:
            if (migration.section, migration.key) == (section, key.value) and migration.applies(value):
                yield RemovedKey(owner, key, value), migration


def _pairs(node: Node) -> list[tuple[ScalarNode, Node]]:
    if not isinstance(node, MappingNode):
        return []
    return [(key, value) for key, value in node.value if isinstance(key, ScalarNode)]


def _texts(node: Node) -> list[str]:
    """The scalar, or those of a list, as they are spelled."""
    if isinstance(node, ScalarNode):
        return [node.value]
    if isinstance(node, SequenceNode):
        return [text for item in node.value for text in _texts(item)]
    return []


def _index(removed: RemovedKey) -> int:
    return int(removed.key.start_mark.index)


def _edits(text: str, removed: RemovedKey, new: Rewritten) -> list[_Edit]:
    """The edits that replace the key and its value. On lines of its own it goes with them, in `{a: 1, b: 2}` with its
    comma.
    """
    start, end = _index(removed), _end(removed.value, removed.key)
    line_start = text.rfind("\n", 0, start) + 1
    line_end = text.find("\n", end)
    if line_end < 0:
        line_end = len(text)
    before = text[line_start:start]
    indent = before[: len(before) - len(before.lstrip())]
    notes = "".join(f"{indent}# {note}\n" for note in new.notes)
    behind = text[end:line_end].partition("#")[0]
    stands_alone = not before.strip() and not behind.strip()
    if stands_alone and not new.line:
        return [_Edit(line_start, line_end + 1, notes)]
    if not new.line:
        start, end = _with_comma(text, start, end)
    return [_Edit(line_start, line_start, notes), _Edit(start, end, new.line)]


def _edited(text: str, edits: list[_Edit]) -> str:
    """The text with all edits made. Two keys in one line may both want the comma between them: the first gets it."""
    parts: list[str] = []
    at = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        parts += [text[at : edit.start], edit.text]
        at = max(at, edit.end)
    return "".join([*parts, text[at:]])


def _with_comma(text: str, start: int, end: int) -> tuple[int, int]:
    """The range with the comma behind it, else with the one before it."""
    following = re.compile(r"\s*,[ \t]*").match(text, end)
    if following is not None:
        return start, following.end()
    before = text[:start].rstrip()
    if before.endswith(","):
        return len(before) - 1, end
    return start, end


def _end(node: Node, before: Node) -> int:
    """Where a value ends, blanks and comments behind it excluded; `before` is what stands before an empty one."""
    if isinstance(node, ScalarNode) and node.start_mark.index == node.end_mark.index:
        return int(before.end_mark.index) + len(":")
    if not isinstance(node, MappingNode | SequenceNode) or node.flow_style:
        return int(node.end_mark.index)
    if isinstance(node, MappingNode):
        key, value = node.value[-1]
        return _end(value, key)
    return _end(node.value[-1], node)
