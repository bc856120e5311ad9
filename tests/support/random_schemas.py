"""Random tools for property tests: schemas with the supported keywords, and valid values."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from referencing import Registry

from proxy.notations.toolset import Tool, ToolSet
from proxy.repair.policy import Policy
from proxy.repair.repairer import Repaired, Repairer

Schema = dict[str, Any]

# Some keys differ only by letter case or separators; some are the keys of calls themselves.
KEYS = ("path", "filePath", "file_path", "count", "Count", "arguments", "input", "name", "x", "größe", "a b", "")
# Strings that look like other types or markup.
LOOKALIKES = (
    *("10", "-0", "1.10", "1e5", "true", "True", "false", "null", "None", "NaN", "[1]", "[]", "{}", '{"a": 1}', ""),
    *(" ", "yes", "a,b", "'a'", '"a"', "\\", "\\n", "</tool_call>", "<tool_call>", "</parameter>", "```", "&amp;"),
    *("x = {'a': 1}", '{"name": "zz", "arguments": {}}', "}", "]", '"}', "\ud83d", "🙂", "\u2028", "a\r\nb\tc", "\x00"),
)
TEXTS = st.sampled_from(LOOKALIKES) | st.text(max_size=8)
INTEGERS = st.integers(-(10**30), 10**30) | st.integers(-3, 12)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = TEXTS | INTEGERS | FLOATS | st.booleans() | st.none()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)


@dataclass(frozen=True)
class Kind:
    """A schema, and values that it allows."""

    schema: Schema
    values: st.SearchStrategy[Any]


def repaired(schema: Schema, text: str, *, stopped: bool = True, policy: Policy | None = None) -> Repaired | None:
    """Return the repaired call of a tool with this schema, given its arguments."""
    return Repairer(ToolSet([Tool("tool", schema)]), policy or Policy()).repair("tool", text, stopped=stopped)


def validator(schema: Schema) -> Draft202012Validator:
    """Return an independent validator, which fetches no references."""
    return Draft202012Validator(schema, registry=Registry())


def _limited_text(least: int, most: int | None) -> Kind:
    limits = {"minLength": least, **({} if most is None else {"maxLength": most})}
    return Kind({"type": "string", **limits}, st.text(min_size=least, max_size=least + 5 if most is None else most))


def _limited_number(kind: str, least: int, width: int, exclusive: bool) -> Kind:
    names = ("exclusiveMinimum", "exclusiveMaximum") if exclusive else ("minimum", "maximum")
    within = st.integers(least + exclusive, least + width - exclusive)
    return Kind({"type": kind, names[0]: least, names[1]: least + width}, within)


def _of_values(values: list[Any], keyword: str, typed: bool) -> Kind:
    given = {"const": values[0]} if keyword == "const" else {"enum": values}
    typed = typed and all(isinstance(value, str) for value in values)
    schema = {**given, "type": "string"} if typed else given
    return Kind(schema, st.sampled_from(values[:1] if keyword == "const" else values))


LEAVES: st.SearchStrategy[Kind] = st.one_of(
    st.sampled_from(
        (
            Kind({"type": "string"}, TEXTS),
            Kind({"type": "string", "description": "a text", "default": "x", "title": "A"}, TEXTS),
            Kind({"type": "integer"}, INTEGERS),
            Kind({"type": "number"}, INTEGERS | FLOATS),
            Kind({"type": "boolean"}, st.booleans()),
            Kind({"type": "null"}, st.none()),
            Kind({"type": ["integer", "null"]}, INTEGERS | st.none()),
            Kind({"type": ["string", "null"]}, TEXTS | st.none()),
            Kind({"type": ["boolean", "number", "string"]}, TEXTS | FLOATS | st.booleans()),
            Kind({"type": "array"}, st.lists(VALUES, max_size=3)),
            Kind({"type": "object"}, st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=3)),
            Kind({}, VALUES),
            Kind({"$comment": "anything", "not": False}, VALUES),
        )
    ),
    st.builds(_limited_text, st.integers(0, 3), st.none() | st.integers(3, 6)),
    st.builds(
        _limited_number, st.sampled_from(("integer", "number")), st.integers(-5, 5), st.integers(2, 9), st.booleans()
    ),
    st.builds(
        _of_values,
        st.lists(SCALARS, min_size=1, max_size=4),
        st.sampled_from(("enum", "const")),
        st.booleans(),
    ),
)


def _list_of(item: Kind, least: int, bounded: bool) -> Kind:
    limits = {"minItems": least, "maxItems": least + 2} if bounded else {}
    values = st.lists(item.values, min_size=least if bounded else 0, max_size=least + 2 if bounded else 3)
    return Kind({"type": "array", "items": item.schema, **limits}, values)


def _tuple_of(items: list[Kind], rest: Kind | None) -> Kind:
    values = st.tuples(*(item.values for item in items)).map(list)
    if rest is not None:
        more = st.lists(rest.values, max_size=2)
        values = st.tuples(values, more).map(lambda both: both[0] + both[1])
    schema = {"type": "array", "prefixItems": [item.schema for item in items]}
    return Kind({**schema, "items": rest.schema if rest else False}, values)


def object_of(members: dict[str, Kind], needed: list[bool], closed: bool, others: Kind | None) -> Kind:
    """Return an object with these members. `needed` says which of the first ones are required."""
    required = [key for key, is_needed in zip(members, needed, strict=False) if is_needed]
    schema: Schema = {"type": "object", "properties": {key: kind.schema for key, kind in members.items()}}
    schema |= {"required": required} if required else {}
    schema |= {"additionalProperties": False} if closed else {}
    if others is not None and not closed:
        schema["additionalProperties"] = others.schema
    values: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
        {key: members[key].values for key in required},
        optional={key: kind.values for key, kind in members.items() if key not in required},
    )
    if others is not None and not closed:
        more = st.dictionaries(st.sampled_from(("zz", "other", "Other")), others.values, max_size=2)
        values = st.tuples(values, more).map(lambda both: {**both[1], **both[0]})
    return Kind(schema, values)


def _any_of(kinds: list[Kind], keyword: str) -> Kind:
    return Kind({keyword: [kind.schema for kind in kinds]}, st.one_of([kind.values for kind in kinds]))


def _all_of(kind: Kind, beside: bool) -> Kind:
    schema: Schema = {"allOf": [kind.schema, {"description": "nothing more"}]}
    return Kind({**schema, "title": "all"} if beside else schema, kind.values)


def objects(inner: st.SearchStrategy[Kind], least: int = 0) -> st.SearchStrategy[Kind]:
    return st.builds(
        object_of,
        st.dictionaries(st.sampled_from(KEYS), inner, min_size=least, max_size=4),
        st.lists(st.booleans(), min_size=4, max_size=4),
        st.booleans(),
        st.none() | inner,
    )


def _larger(inner: st.SearchStrategy[Kind]) -> st.SearchStrategy[Kind]:
    return st.one_of(
        st.builds(_list_of, inner, st.integers(0, 2), st.booleans()),
        st.builds(_tuple_of, st.lists(inner, min_size=1, max_size=3), st.none() | inner),
        objects(inner),
        st.builds(_any_of, st.lists(inner, min_size=1, max_size=3), st.sampled_from(("anyOf", "oneOf"))),
        st.builds(_all_of, inner, st.booleans()),
    )


KINDS = st.recursive(LEAVES, _larger, max_leaves=5)


def _referred(root: Kind, name: str) -> Kind:
    """Return the tool with a `$ref` in place of its first member, or of the whole schema if it has no members."""
    schema = root.schema
    members = dict(schema["properties"])
    pointer = f"#/$defs/{name.replace('~', '~0').replace('/', '~1')}"
    if not members:
        return Kind({"$ref": pointer, "$defs": {name: schema}}, root.values)
    key = next(iter(members))
    inner = members[key]
    members[key] = {"$ref": pointer}
    return Kind({**schema, "properties": members, "$defs": {name: inner}}, root.values)


def _tree(leaf: Kind) -> Kind:
    """Return a tool whose parameter is a tree."""
    node = {
        "type": "object",
        "properties": {"value": leaf.schema, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
        "required": ["value"],
        "additionalProperties": False,
    }
    schema = {"type": "object", "properties": {"tree": {"$ref": "#/$defs/node"}}, "$defs": {"node": node}}
    one = leaf.values.map(lambda value: {"value": value})
    nodes = st.recursive(
        one,
        lambda inner: st.tuples(leaf.values, st.lists(inner, max_size=2)).map(
            lambda both: {"value": both[0], "children": both[1]}
        ),
        max_leaves=4,
    )
    return Kind(schema, nodes.map(lambda found: {"tree": found}))


TOOLS: st.SearchStrategy[Kind] = st.one_of(
    objects(KINDS, least=1),
    st.builds(_referred, objects(KINDS), st.sampled_from(("a", "a/b", "~x", "größe"))),
    st.builds(_tree, LEAVES),
    st.builds(_any_of, st.lists(objects(KINDS), min_size=1, max_size=2), st.just("anyOf")),
)


@st.composite
def texts_of(draw: st.DrawFn, value: Any) -> str:
    """Generate JSON texts of a value in various spellings."""
    text = json.dumps(
        value,
        ensure_ascii=draw(st.booleans()),
        indent=draw(st.sampled_from((None, None, 0, 2, "\t"))),
        separators=draw(st.sampled_from((None, (",", ":"), (" ,", " : ")))),
    )
    return draw(st.sampled_from(("", "", " ", "\n"))) + text + draw(st.sampled_from(("", "", "\r\n", " ")))
