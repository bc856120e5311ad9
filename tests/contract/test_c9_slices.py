"""No damage, as a property (contract C9). For any damage and any schema, each string sent is a slice of the received
text after its key, with escapes decoded. Each number and word was received, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proxy.json import dump
from proxy.notations.schema import resolve
from proxy.notations.toolset import fold
from proxy.repair.repairer import Repaired
from tests.support.random_schemas import TOOLS, Kind, object_of, repaired, texts_of
from tests.support.rows import rows

pytestmark = pytest.mark.once

Damage = Callable[[str, int], str]
_JSON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_PYTHON_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|([0-7]{1,3})|(.))", re.DOTALL)
_ONE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}
_PYTHON_ONE = {**_ONE, "v": "\v", "a": "\a", "\n": ""}
_NUMBER = re.compile(r"-?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
_WORDS: dict[Any, tuple[str, ...]] = {True: ("true", "True"), False: ("false", "False"), None: ("null", "None")}


def _json_decoded(text: str) -> str:
    return _JSON_ESCAPE.sub(lambda found: _character(found.group(1), found.group(2), _ONE), text)


def _python_decoded(text: str) -> str:
    def character(found: re.Match[str]) -> str:
        if found.group(3):
            return chr(int(found.group(3), 8))
        return _character(found.group(1) or found.group(2), found.group(4), _PYTHON_ONE)

    return _PYTHON_ESCAPE.sub(character, text)


def _character(digits: str | None, letter: str | None, known: dict[str, str]) -> str:
    return chr(int(digits, 16)) if digits else known.get(str(letter), f"\\{letter}")


def _joined(text: str) -> str:
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def written(text: str) -> list[str]:
    """Return the text, and the text with its escapes decoded as often as it may have been encoded."""
    found = [text]
    for decoded in (_json_decoded, _python_decoded):
        once = decoded(text)
        found += [once, decoded(once), decoded(decoded(once))]
    return [*found, *map(_joined, found)]


def listed(schema: Any, root: Any, depth: int = 0) -> Iterator[Any]:
    """Yield the values that a schema enumerates at any depth."""
    if isinstance(schema, dict) and depth < 20:
        yield from schema.get("enum", ())
        yield from (schema[key] for key in ("const",) if key in schema)
        for key, inner in schema.items():
            if key == "$ref":
                yield from listed(resolve(inner, root), root, depth + 4)
            yield from listed(inner, root, depth + 1)
    for inner in schema if isinstance(schema, list) else ():
        yield from listed(inner, root, depth + 1)


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the keys of a value, and its strings, numbers and literals, each with its key."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield "", name
            yield from leaves(inner, name)
    elif isinstance(value, list):
        for inner in value:
            yield from leaves(inner, key)
    else:
        yield key, value


def is_slice(text: str, key: str, received: list[str]) -> bool:
    """Return whether the received text contains the string after its key, in any spelling."""
    for candidate in received:
        at = candidate.rfind(text)
        if at >= 0 and fold(key) in fold(candidate[: at + (not text)]):
            return True
    return False


def was_written(value: Any, key: str, received: list[str]) -> bool:
    """Return whether a leaf of the arguments was written."""
    if isinstance(value, str):
        if is_slice(value, key, received) or (not key and any(fold(value) in fold(each) for each in received)):
            return True
        try:
            inner = json.loads(value)
        except ValueError:
            return False
        # The JSON text of a value that the model wrote.
        return not isinstance(inner, str) and all(was_written(leaf, "", received) for _, leaf in leaves(inner))
    if value is None or isinstance(value, bool):
        return any(word in each for word in _WORDS[value] for each in received)
    text = dump(value)
    return any(text in each or value in map(float, _NUMBER.findall(each)) for each in received)


def _at(text: str, seed: int) -> int:
    return seed % (len(text) + 1)


DAMAGE: dict[str, Damage] = {
    "nothing": lambda text, seed: text,
    "marks without a backslash": lambda text, seed: text.replace('\\"', '"'),
    "a mark lost": lambda text, seed: text[: _at(text, seed)] + text[_at(text, seed) :].replace('"', "", 1),
    "a mark too many": lambda text, seed: text[: _at(text, seed)] + '"' + text[_at(text, seed) :],
    "a backslash lost": lambda text, seed: text.replace("\\", "", 1 + seed % 3),
    "a backslash too many": lambda text, seed: text[: _at(text, seed)] + "\\" + text[_at(text, seed) :],
    "a character lost": lambda text, seed: text[: _at(text, seed)] + text[_at(text, seed) + 1 :],
    "a bracket too many": lambda text, seed: text[: _at(text, seed)] + "{}[]"[seed % 4] + text[_at(text, seed) :],
    "a bracket lost": lambda text, seed: re.sub(r"[{}\[\]]", "", text, count=1 + seed % 2),
    "brackets lost at the end": lambda text, seed: text.rstrip()[: -(1 + seed % 3)],
    "cut off": lambda text, seed: text[: _at(text, seed)],
    "a comma lost": lambda text, seed: text.replace(",", " ", 1 + seed % 2),
    "a comma too many": lambda text, seed: text.replace("}", ",}").replace("]", ",]"),
    "keys without marks": lambda text, seed: re.sub(r'"(\w+)"(\s*:)', r"\1\2", text),
    "Python's marks": lambda text, seed: text.replace('"', "'"),
    "Python's words": lambda text, seed: text.replace("true", "True").replace("null", "None"),
    "three marks": lambda text, seed: text.replace('"', '"""', 2 + seed % 4),
    "raw line ends": lambda text, seed: text.replace("\\n", "\n").replace("\\t", "\t"),
    "typographic marks": lambda text, seed: re.sub(r'"([^"\\]*)"', r"“\1”", text),
    "a comment": lambda text, seed: text.replace(",", ", // x\n", 1),
    "encoded": lambda text, seed: json.dumps(text),
    "twice": lambda text, seed: text + text,
    "junk": lambda text, seed: f"json\n{text}</tool_call>",
    "numbers as text": lambda text, seed: re.sub(r"(?<=: )(-?\d+)(?=[,}\]])", r'"\1"', text),
    "texts as what they say": lambda text, seed: re.sub(r'(?<=: )"(-?\d+|true|null|\{\})"', r"\1", text),
    "brackets around a value": lambda text, seed: re.sub(r'(?<=: )("[^"\\]*"|\d+)', r"(\1)", text, count=1),
    "a word for a number": lambda text, seed: re.sub(r"(?<=: )-?\d[\d.eE+-]*", "NaN", text, count=1),
    "wrapped": lambda text, seed: f'{{"arguments": {text}}}',
    "keys in other letters": lambda text, seed: re.sub(r'"(\w+)"(?=\s*:)', lambda found: found.group().upper(), text),
}


def fault(schema: Any, text: str, found: Repaired) -> str:
    """Return a value in the repaired arguments that was not written; "" if all were."""
    received = written(text)
    allowed = [*listed(schema, schema)]
    for key, leaf in leaves(found.values):
        if any(type(leaf) is type(each) and leaf == each for each in allowed):
            continue
        if not was_written(leaf, key, received):
            return f"{leaf!r} under {key!r} of {text!r} as {found.arguments!r}"
    return ""


# Short texts of characters that are easily misread, so that much damaged text can still be read.
_PLAIN_TEXT = st.sampled_from(('say "hi"', "f(\"x\", 'y')", "C:\\new\\x", "a\nb", '{"a": "b"}', "", "x", "it's", "}"))
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "path": _PLAIN_TEXT,
    "content": _PLAIN_TEXT,
    "mode": st.sampled_from(("on", "off")),
    "limit": st.integers(0, 99),
}
_PLAIN_SCHEMAS: dict[str, dict[str, Any]] = {
    "path": {"type": "string"},
    "content": {"type": "string"},
    "mode": {"enum": ["on", "off"]},
    "limit": {"type": "integer"},
}
_KEYS = (("path", "content"), ("content", "path", "mode"), ("limit", "content"), ("path", "limit", "mode"))
PLAIN = st.builds(
    object_of,
    st.sampled_from([{key: Kind(_PLAIN_SCHEMAS[key], _PLAIN[key]) for key in keys} for keys in _KEYS]),
    st.lists(st.booleans(), min_size=4, max_size=4),
    st.booleans(),
    st.none(),
)
PATIENT = settings(
    max_examples=20, derandomize=True, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@pytest.mark.slow
@pytest.mark.parametrize("way", DAMAGE)
@PATIENT
@given(data=st.data(), seed=st.integers(0, 10_000), more=st.sampled_from(sorted(DAMAGE)), stopped=st.booleans())
def test_c9_every_value_sent_was_written(way: str, data: st.DataObject, seed: int, more: str, stopped: bool) -> None:
    kind = data.draw(TOOLS | PLAIN)
    text = data.draw(texts_of(data.draw(kind.values)))
    broken = DAMAGE[more](DAMAGE[way](text, seed), seed // 7)
    found = repaired(kind.schema, broken, stopped=stopped)
    assert found is None or fault(kind.schema, broken, found) == ""


@rows(__file__, "text,values")
def test_invented_values_are_detected(text: str, values: Any) -> None:
    schema = {"type": "object", "properties": {"a": {}, "b": {}}}
    found = repaired(schema, "{}")
    assert found is not None
    wrong = Repaired(found.name, found.tool, json.dumps(values), values, (), 0)
    assert fault(schema, text, wrong)
    assert not fault(schema, text, Repaired(found.name, found.tool, "{}", {}, (), 0))


def test_enough_damage_is_repaired() -> None:
    """Otherwise the property is not tested."""
    schema = {"type": "object", "properties": {"path": {"type": "string"}, "limit": {"type": "integer"}}}
    text = json.dumps({"path": 'say "hi"\n', "limit": 5})
    read = [way for way in DAMAGE if repaired(schema, DAMAGE[way](text, 3)) is not None]
    assert len(read) > len(DAMAGE) // 2
