"""The arguments of a call as the text of a JSON object, whatever the model made of them (F17, F29, F30).

    {"path": "a.py"}              as it is
    "{\\"path\\": \\"a.py\\"}"      the object that the string holds
    {'path': 'a.py', 'all': True} as JSON: {"path": "a.py", "all": true}
    null                          {}
"""

from __future__ import annotations

import re
from itertools import islice, pairwise

from proxy.codec.json_text import Json, JsonObject, dump, load_json, read_json
from proxy.codec.literals import printed_by_python, read_literal
from proxy.parsing.cursor import NotACall, StringGoesOn, Unreadable
from proxy.repair.argument_readers import ReadArguments, read_arguments
from proxy.tools.toolset import Tool
from proxy.tools.validator import violations

# The readers that read all of a text: nothing is left out, and nothing supplied.
_READS_ALL = frozenset(("literals", "bare_keys", "lost_commas", "comments", "smart_quotes", "inner_quotes"))
_MAX_READINGS = 6
# Strings that end where a value or a key may end; the marks that are left are those of strings that go on. A string
# that never ends is a group: it stays, in one match.
_STRINGS = re.compile(r"""\"(?:[^"\\]|\\.)*+\"(?=\s*+(?:[,:}\]]|\Z))|(\"(?:[^"\\]|\\.)*+\\?\Z)""", re.DOTALL)
# The end of one parameter and the beginning of the next, written into the first one's string.
_END = "</parameter>"
_RESIDUE = re.compile(r"</parameter>\s*<parameter=([^<>]{1,128})>\s*\Z")


def arguments(value: bytes, tool: Tool) -> str:
    """The text of the arguments' object, as it was written if it is JSON; NotACall if it is no object.

    A string that holds an object is taken for it (F29), null for none (F26).
    """
    text = value.decode("utf-8", "surrogatepass")
    parsed = _read(text, tool)
    if isinstance(parsed, str):
        text = parsed.strip() or "null"
        parsed = _read(text, tool)
    if parsed is None:
        return "{}"
    if not isinstance(parsed, dict):
        raise NotACall("the arguments are no object")
    changed = _without_residue(parsed)
    if changed is not None:
        return dump(changed)
    return text if _is_json(text) else dump(parsed)


def read_string(quoted: bytes) -> str:
    """The text of a string in either quotation marks; NotACall if it is none."""
    try:
        text = read_literal(quoted.decode("utf-8", "surrogatepass"))
    except ValueError:
        text = None
    if not isinstance(text, str):
        raise NotACall("a name was expected")
    return text


def _read(text: str, tool: Tool) -> Json:
    try:
        return read_json(text)
    except ValueError:
        pass
    lists = [name for name in tool.properties if tool.is_list(name)]
    try:
        return read_literal(text, lists=lists, also=printed_by_python(text))
    except ValueError as error:
        for reading in islice(read_arguments(text, lists=lists, schema=tool.compiled), _MAX_READINGS):
            if _is_as_written(reading, tool):
                return reading.values
        kind = StringGoesOn if '"' in _STRINGS.sub(r"\1", text) else Unreadable
        raise kind(f"the arguments cannot be read: {error}") from None


def _is_as_written(reading: ReadArguments, tool: Tool) -> bool:
    """True if all of a text was read, and the schema accepts what could only be read by it."""
    if reading.by_schema and violations(reading.values, tool.compiled):
        return False
    return all(reader.id in _READS_ALL for reader in reading.readers)


def _is_json(text: str) -> bool:
    try:
        load_json(text)
    except ValueError:
        return False
    return True


def _without_residue(values: JsonObject) -> JsonObject | None:
    """The values without the tags that one of them ends with, if these name the next key (F17); None if none does.

        {"path": "a.py</parameter>\\n<parameter=content>", "content": "x = 1"}
    """
    cleaned = dict(values)
    for key, following in pairwise([*values, ""]):
        value = values[key]
        if isinstance(value, str):
            cleaned[key] = _without_tags(value, following)
    return cleaned if cleaned != values else None


def _without_tags(value: str, following: str) -> str:
    """A value without the end tag of its parameter and the tag of the following one at its end."""
    at = value.rfind(_END)
    if at < 0:
        return value
    match = _RESIDUE.match(value, at)
    if match is None or match.group(1) != following:
        return value
    return value[:at].rstrip()
