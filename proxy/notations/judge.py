"""Judge of whether calls count, by their evidence and their surroundings."""

from __future__ import annotations

import re
from dataclasses import dataclass

from proxy.json import Json, JsonObject
from proxy.notations.calls import Call
from proxy.notations.copies import Copies
from proxy.notations.reader import CallReader, missing
from proxy.notations.schema import ALL_TYPES
from proxy.notations.signs import STRONG, STRONG_WHOLE
from proxy.notations.source import NeedMore, NoCall, Rejection, Source, Touched
from proxy.notations.strings import Oddity
from proxy.notations.surroundings import Prose
from proxy.notations.tables import WRAPPER_CLOSE
from proxy.notations.tags import CLOSERS
from proxy.notations.toolset import Tool, ToolSet
from proxy.notations.validator import Validator, children

# Maximum length of the end of a quotation.
MAX_MARK = 20
_MARK = re.compile(r"[\"}]")
# A quotation mark and a bracket, which may end a JSON string and its object; the same before a call's closer.
_STRING_END = re.compile(r"([\"'])\s*[}\]]")
_CALL_END = re.compile(rf"{_STRING_END.pattern}[\s}}\]`]*({WRAPPER_CLOSE}|{CLOSERS.pattern.pattern}|<\|call\|>)")
# Keywords of an object's schema.
_KEYWORDS = {"$schema", "$id", "$defs", "$comment", "definitions", "type", "properties", "required", "description"}
_KEYWORDS |= {"additionalProperties", "title", "strict", "default", "examples"}
# Names of types in JSON Schema and in programming languages.
_TYPE_NAMES = ALL_TYPES | {"str", "int", "float", "double", "bool", "list", "dict", "map", "any", "none"}
# Keywords that describe a value, with the type of their own values.
_DESCRIBING = {"$ref": str, "enum": list, "anyOf": list, "oneOf": list, "allOf": list, "properties": dict}


class StringGoesOn(NoCall):
    """A string of the call may end later, so nothing that follows counts."""


@dataclass(slots=True)
class Judge:
    """Judge of calls in a source. Its checks raise NoCall with the reason if the calls do not count.

    `prose` is the text before the calls. `first`: nothing precedes them. `stopped`: the model ended the reply.
    `json_reply`: the client asked for JSON. `after_listing`: a listing of tools ends directly before them.
    """

    source: Source
    tools: ToolSet
    copies: Copies
    prose: Prose
    first: bool
    stopped: bool
    json_reply: bool
    after_listing: bool

    def check(self, calls: list[Call], start: int, end: int, *, weak: bool) -> None:
        """Raise NoCall if the calls in text[start:end] do not count, NeedMore if it depends on the text that follows.

        `weak`: they count only at the end of the reply.
        """
        text, offered = self.source.text, [call for call in calls if call.tool is not None]
        if not offered:
            self._check_told(calls, end)
            raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)
        defined = any(call.tool and is_definition(call.arguments, call.tool) for call in offered)
        if defined or (self.after_listing and not any(call.arguments for call in offered)):
            # Calls without arguments directly after tool definitions belong to the listing.
            raise Listing("tools are listed")
        whole = text[start:end]
        each = ((call, text[call.start : call.end] if len(calls) > 1 else whole) for call in offered)
        if self.copies.hold(each, whole):
            raise NoCall("copied from the conversation", Rejection.COPIED)
        if self.prose.in_code():
            raise _shown("in code", self._run(end))
        if weak:
            self._check_weak(calls)
            return
        self._check_told(calls, end)
        if any(Oddity.CLOSERS in call.odd for call in calls) and (not self.stopped or missing(calls)):
            raise NoCall("the reply was cut off", Rejection.CUT_OFF)
        self._check_surroundings(end)
        self._check_second_end(calls[-1], end)
        if self.prose.indented():
            run = self._run(end)
            if not self.source.at_end(run[-1][1]):
                raise _shown("indented like code", run)
            self._check_weak(calls)

    def _check_told(self, calls: list[Call], end: int) -> None:
        """Reject calls if the end of a string was inferred and a later mark could be the end, too.

        Only the whole reply shows this.
        """
        if not any(call.told for call in calls):
            return
        if not self.source.final:
            raise NeedMore
        # Marks in the calls that follow do not count.
        text, ahead = self.source.text, CallReader(self.source, self.tools)
        while (found := STRONG_WHOLE.search(text, end)) and not _MARK.search(text, end, found.start()):
            try:
                _, end = ahead.strong(found.start())
            except NoCall:
                break
        if _MARK.search(text, end):
            raise StringGoesOn("a string may end elsewhere")

    def _check_second_end(self, last: Call, end: int) -> None:
        """Reject calls if the text after the last one ends it a second time: a string of it may go on to there.

        {"command": "echo "}}</tool_call> ends a call"}}</tool_call>
        """
        if not (self.source.final or self._begins(CallReader(self.source, self.tools).skip_left(end))):
            raise NeedMore
        following = STRONG_WHOLE.search(self.source.text, end)
        text = self.source.text[end : following.start() if following else self.source.size]
        # The last quotation mark of the call is the one that its strings end with.
        mark = max("\"'", key=lambda each: self.source.text.rfind(each, last.start, end))
        ends = (_STRING_END if last.unclosed else _CALL_END).finditer(text)
        if found := next((each for each in ends if each.group(1) == mark), None):
            # If the quotation marks are paired, another object ends here.
            before = text[: found.end(1)]
            again = (before.count(mark) - before.count("\\" + mark)) % 2 or (last.unclosed and "\n" not in before)
            if again and (last.unclosed or found.group(2) in self.source.text[last.start : end]):
                raise StringGoesOn("a string may end elsewhere")

    def _check_surroundings(self, end: int) -> None:
        """Reject calls in a quotation, a sentence, a listing or a container that shows text.

        Consecutive calls are judged together.
        """
        prose, source, text = self.prose, self.source, self.source.text
        container = prose.open_container()
        if container and container.search(text, end):
            raise _shown("in a block that shows text", self._run(end))
        if not prose.may_be_shown():
            return
        run = self._run(end)
        end, behind = run[-1]
        if not source.final and (container or source.size - behind < 8):
            raise NeedMore
        if prose.quoted(text[end : behind + MAX_MARK]):
            raise _shown("quoted", run)
        follows = behind < source.size and not self._begins(behind)
        on_line = not any("\n" in text[end : behind + 1] for end, behind in run)
        if prose.line.strip() and on_line and follows:
            raise _shown("in a sentence", run)
        if prose.listed(follows):
            raise _shown("in a listing", run)

    def _run(self, end: int) -> list[tuple[int, int]]:
        """Return the ends of a call and of calls directly after it, each with the end of its leftovers."""
        ahead = CallReader(self.source, self.tools)
        run = [(end, ahead.skip_left(end))]
        while (behind := run[-1][1]) < self.source.size and self._begins(behind):
            try:
                _, end = ahead.strong(behind)
            except Touched as touched:
                end = touched.pos
            except NoCall:
                break
            run.append((end, ahead.skip_left(end)))
        return run

    def _begins(self, pos: int) -> bool:
        """Return whether another call begins at a position."""
        return self.source.match(STRONG, pos, ends=True) is not None

    def _check_weak(self, calls: list[Call]) -> None:
        """Reject weak evidence unless the model ended the reply, all keys are declared and all required ones given."""
        if not self.stopped:
            raise NoCall("the reply was cut off", Rejection.CUT_OFF)
        if self.json_reply:
            raise NoCall("the client asked for JSON", Rejection.JSON_REPLY)
        if any(call.spoils_row for call in calls):
            raise NoCall("no tool of this name is offered", Rejection.NOT_OFFERED)
        if self.prose.behind_quote():
            raise NoCall("quoted", Rejection.QUOTED)
        if self.first and all(call.bare and not call.arguments for call in calls):
            raise NoCall("no argument")
        for call in calls:
            if call.tool is None:
                continue
            if call.loose and (not self.first or not any(each.arguments for each in calls)):
                raise NoCall("not said clearly enough")
            meant = {call.tool.meant(key, call.arguments): value for key, value in call.arguments.items()}
            tolerated = self.first and call.json and len(calls) == 1 and call.tool.tolerates(meant)
            if not tolerated and not call.tool.accepts(meant):
                raise NoCall("keys are missing or not declared")


def _shown(why: str, run: list[tuple[int, int]]) -> NoCall:
    """Return the refusal of all calls in a run."""
    return NoCall(why, Rejection.QUOTED, run[-1][0])


class Listing(NoCall):
    """The text lists the definitions of tools."""


def is_definition(arguments: JsonObject, tool: Tool) -> bool:
    """Return whether arguments are a JSON Schema, although the tool does not take one (F88).

    {"name": "read", "parameters": {"type": "object", "properties": {"path": {"type": "string"}}}}
    """
    own, listed = tool.properties.keys(), arguments.get("properties")
    is_object = "type" in own or str(arguments.get("type", "object")).casefold() == "object"
    says_object = is_object and "type" in arguments.keys() - own
    lists = is_object and isinstance(listed, dict) and all(isinstance(each, dict) for each in listed.values())
    if lists and says_object:
        return True
    lists = lists and "properties" not in own
    about = _KEYWORDS if lists else _KEYWORDS - own - {"properties"}
    others = {key: value for key, value in arguments.items() if key not in about}
    if not all(map(_describes, others.values())):
        return False
    return lists or says_object or any(_cannot_be(tool, key, value) for key, value in others.items())


def _describes(value: Json) -> bool:
    """Return whether a value describes a parameter: `{"type": "string"}`, `{"enum": ["a"]}`, `{}`, `"integer"`."""
    if not isinstance(value, dict):
        return _is_type_name(value)
    return (
        value.keys() <= {"description"}
        or "const" in value
        or _is_type_name(value.get("type"))
        or any(isinstance(value.get(key), kind) for key, kind in _DESCRIBING.items())
    )


def _is_type_name(value: Json) -> bool:
    """Return whether a value is a type name or a list of them."""
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name.casefold() in _TYPE_NAMES for name in names)


def _cannot_be(tool: Tool, key: str, value: Json) -> bool:
    """Return whether a description of parameter `key` is invalid as its value."""
    if not value or not isinstance(value, str | dict):
        return False
    schema = next(iter(children(key, [tool.compiled])), None)
    if schema is None:
        return not tool.compiled.extensible
    wrong_type, _, unknown = Validator().score(value, schema)
    return wrong_type or unknown >= len(value)
