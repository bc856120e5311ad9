"""The healings: one ordered table of pure functions from a request's body to a body.

Each gives the very same body where it has nothing to do, and twice is once. What stays the same object is not written
anew, so that a healthy history goes up as the very bytes that came (contract C1).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from proxy.codec.json_text import Json, JsonObject
from proxy.healing import calls, contents, markup, results, roles, tools
from proxy.healing.conversation import ANY


class Level(Enum):
    """When a healing is in force, unless it is off: always; by what the template can do; on request."""

    ALWAYS = "always"
    TEMPLATE = "template"
    REQUEST = "request"


@dataclass(frozen=True, slots=True)
class Healing:
    """One healing. `failure` are its numbers of docs/contracts.md; `example` is what it is for, before and after:
    messages, or tools (`key`). It has nothing to do where there is none of what it `needs` (`conversation.traits_of`).
    """

    id: str
    level: Level
    failure: str
    why: str
    example: tuple[list[JsonObject], list[JsonObject]]
    apply: Callable[[JsonObject], JsonObject]
    key: str = "messages"
    needs: frozenset[str] = frozenset((ANY,))


# By this one the server has shown that it wants the reasoning of earlier turns back (F74).
WANTS_REASONING = "reasoning_back"
_OF_CALLS, _OF_RESULTS = frozenset(("tool_calls",)), frozenset(("tool",))
_OLD_CALLS = frozenset(("function_call", "function"))
_NO_TEXTS = frozenset(("dict", "int", "float", "bool"))
_READ: JsonObject = {"name": "read", "arguments": '{"path": "a"}'}
_CALL: JsonObject = {"id": "call_1", "type": "function", "function": _READ}
_OTHER: JsonObject = {**_CALL, "id": "call_2"}
_NO_CONTENT: JsonObject = {"role": "assistant", "content": ""}


def _say(role: str, content: Json) -> JsonObject:
    return {"role": role, "content": content}


def _calls(*entries: Json) -> JsonObject:
    return {**_NO_CONTENT, "tool_calls": [*entries]}


def _call(arguments: Json, name: str = "read") -> JsonObject:
    return {**_CALL, "function": {"name": name, "arguments": arguments}}


def _result(call_id: str, content: Json = "text") -> JsonObject:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def _tool(**parameters: Json) -> JsonObject:
    return {"type": "function", "function": {"name": "read", "description": "Reads.", **parameters}}


def _with_id(call_id: str) -> JsonObject:
    return {**_CALL, "id": call_id}


HEALINGS = (
    Healing(
        "function_call",
        Level.ALWAYS,
        "F79",
        "calls in their earlier form are known to no template",
        (
            [
                {"role": "assistant", "content": "", "function_call": _READ},
                {"role": "function", "name": "read", "content": "text"},
            ],
            [
                _calls(_with_id("call_f1")),
                {"role": "tool", "name": "read", "content": "text", "tool_call_id": "call_f1"},
            ],
        ),
        calls.modern_calls,
        needs=_OLD_CALLS,
    ),
    Healing(
        "empty_calls",
        Level.ALWAYS,
        "F83",
        "a list of no calls is a call to some templates",
        ([{**_say("assistant", "Done."), "tool_calls": []}], [_say("assistant", "Done.")]),
        calls.drop_empty_calls,
        needs=_OF_CALLS,
    ),
    Healing(
        "call_type",
        Level.ALWAYS,
        "F79",
        "a call says that it is one of a function",
        ([_calls({"id": "call_1", "function": _READ})], [_calls(_CALL)]),
        calls.type_calls,
        needs=_OF_CALLS,
    ),
    Healing(
        "arguments",
        Level.ALWAYS,
        "F79, F80",
        "the arguments of a call must be the text of an object",
        ([_calls(_call("{'path': 'a'}"))], [_calls(_call('{"path": "a"}'))]),
        calls.read_call_arguments,
        needs=_OF_CALLS,
    ),
    Healing(
        "null_content",
        Level.ALWAYS,
        "F83",
        "many templates join the content to a text",
        ([_say("user", None)], [_say("user", "")]),
        contents.fill_content,
        needs=frozenset(("NoneType",)),
    ),
    Healing(
        "part_types",
        Level.ALWAYS,
        "F83",
        "a text of another dialect, or one that does not say what it is",
        (
            [_say("user", [{"type": "input_text", "text": "Hi"}])],
            [_say("user", [{"type": "text", "text": "Hi"}])],
        ),
        contents.name_parts,
        needs=frozenset(("list",)),
    ),
    Healing(
        "content_text",
        Level.ALWAYS,
        "F83",
        "a content that is an object or a number is refused",
        ([_calls(_CALL), _result("call_1", {"found": 1})], [_calls(_CALL), _result("call_1", '{"found": 1}')]),
        contents.write_content,
        needs=_NO_TEXTS,
    ),
    Healing(
        "markup_calls",
        Level.ALWAYS,
        "F81",
        "a call that stands as text has a result that stands alone",
        (
            [_say("assistant", 'So.\n<tool_call>{"name": "read", "arguments": {}}</tool_call>'), _result("call_1")],
            [{**_say("assistant", "So."), "tool_calls": [_call("{}")]}, _result("call_1")],
        ),
        markup.read_markup,
        needs=_OF_RESULTS,
    ),
    Healing(
        "call_ids",
        Level.ALWAYS,
        "F48, F81",
        "each call has an id of its own, and its result the same one",
        ([_calls(_with_id("call_abc")), _result("callabc")], [_calls(_with_id("call_abc")), _result("call_abc")]),
        results.identify_calls,
        needs=_OF_CALLS,
    ),
    Healing(
        "result_order",
        Level.ALWAYS,
        "F81",
        "results follow their calls, in the order of the calls",
        (
            [_calls(_CALL), _say("user", "And?"), _result("call_1")],
            [_calls(_CALL), _result("call_1"), _say("user", "And?")],
        ),
        results.order_results,
        needs=_OF_CALLS,
    ),
    Healing(
        "missing_results",
        Level.ALWAYS,
        "F81",
        "a call without a result is refused",
        (
            [_calls(_CALL), _say("user", "Stop.")],
            [_calls(_CALL), _result("call_1", results.NO_RESULT), _say("user", "Stop.")],
        ),
        results.complete_results,
        needs=_OF_CALLS,
    ),
    Healing(
        "orphan_results",
        Level.ALWAYS,
        "F81",
        "a result without a call is refused, or lost",
        ([_result("call_9")], [_say("user", f"{results.ORPHAN}\n\ntext")]),
        results.tell_orphans,
        needs=_OF_RESULTS,
    ),
    Healing(
        "developer",
        Level.ALWAYS,
        "F82",
        "most templates lose what a developer says",
        ([_say("developer", "Be brief.")], [_say("system", "Be brief.")]),
        roles.rename_developer,
        needs=frozenset(("developer",)),
    ),
    Healing(
        "token_counts",
        Level.ALWAYS,
        "F95",
        "a system message that only says how many tokens are left costs some, and tells a model nothing",
        (
            [_say("user", "Hi"), _say("system", "<total_tokens>9 tokens left</total_tokens>")],
            [_say("user", "Hi")],
        ),
        roles.drop_token_counts,
        needs=frozenset(("system",)),
    ),
    Healing(
        "call_names",
        Level.ALWAYS,
        "F36",
        "a model writes again what it reads in its own turns",
        ([_calls(_call("{}", "functions.read:0"))], [_calls(_call("{}"))]),
        calls.name_calls,
        needs=_OF_CALLS,
    ),
    Healing(
        "tool_parameters",
        Level.ALWAYS,
        "F84",
        "a tool without parameters says so",
        ([_tool()], [_tool(parameters={"type": "object", "properties": {}})]),
        tools.complete_parameters,
        key="tools",
    ),
    Healing(
        "null_beside_calls",
        Level.TEMPLATE,
        "F83",
        "the template joins the content beside calls to a text",
        ([{**_calls(_CALL), "content": None}, _result("call_1")], [_calls(_CALL), _result("call_1")]),
        contents.fill_content_beside_calls,
    ),
    Healing(
        WANTS_REASONING,
        Level.TEMPLATE,
        "F73, F74",
        "the server wants the reasoning before a call back",
        (
            [{**_calls(_CALL), "reasoning": "Hm."}, _result("call_1")],
            [{**_calls(_CALL), "reasoning": "Hm.", "reasoning_content": "Hm."}, _result("call_1")],
        ),
        contents.give_reasoning_back,
    ),
    Healing(
        "plain_schemas",
        Level.TEMPLATE,
        "F84",
        "the template or the grammar knows one type a place, and no references",
        (
            [_tool(parameters={"type": "object", "properties": {"path": {"type": ["string", "null"]}}})],
            [_tool(parameters={"type": "object", "properties": {"path": {"type": "string"}}})],
        ),
        tools.plain_schemas,
        key="tools",
    ),
    Healing(
        "tool_descriptions",
        Level.TEMPLATE,
        "F84",
        "the template joins the description to a text",
        (
            [{"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}],
            [
                {
                    "type": "function",
                    "function": {"name": "read", "parameters": {"type": "object", "properties": {}}, "description": ""},
                }
            ],
        ),
        tools.complete_descriptions,
        key="tools",
    ),
    Healing(
        "tool_names",
        Level.TEMPLATE,
        "F84",
        "the server takes names of 64 letters, digits, _ and -; the client's own come back",
        (
            [{"type": "function", "function": {"name": "web.search", "parameters": {"properties": {}}}}],
            [{"type": "function", "function": {"name": "web_search_0fa91617", "parameters": {"properties": {}}}}],
        ),
        tools.shorten_names,
        key="tools",
    ),
    Healing(
        "pictures",
        Level.TEMPLATE,
        "F83",
        "the model reads text only",
        (
            [_say("user", [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}])],
            [_say("user", "[Here was a picture, which this model cannot read.]")],
        ),
        contents.tell_pictures,
    ),
    Healing(
        "flat_texts",
        Level.TEMPLATE,
        "F83",
        "the template reads no lists of parts",
        ([_say("user", [{"type": "text", "text": "Hi"}])], [_say("user", "Hi")]),
        contents.flatten_texts,
    ),
    Healing(
        "one_system",
        Level.TEMPLATE,
        "F82",
        "the template takes one system message",
        ([_say("system", "One."), _say("system", "Two.")], [_say("system", "One.\n\nTwo.")]),
        roles.merge_systems,
    ),
    Healing(
        "late_system",
        Level.TEMPLATE,
        "F82",
        "the template takes a system message in the first place only",
        (
            [_say("user", "Hi"), _say("system", "Be brief.")],
            [_say("user", "Hi"), _say("user", "<system-reminder>\nBe brief.\n</system-reminder>")],
        ),
        roles.remind_late_systems,
    ),
    Healing(
        "no_system",
        Level.TEMPLATE,
        "F82",
        "the template takes no system message",
        ([_say("system", "Be brief."), _say("user", "Hi")], [_say("user", "Be brief.\n\nHi")]),
        roles.give_system_to_user,
    ),
    Healing(
        "text_calls",
        Level.TEMPLATE,
        "F80",
        "the template knows no calls, or no results",
        (
            [_calls(_CALL), _result("call_1")],
            [
                _say("assistant", '<tool_call>\n{"name": "read", "arguments": {"path": "a"}}\n</tool_call>'),
                _say("user", "<tool_response>\ntext\n</tool_response>"),
            ],
        ),
        contents.spell_out_calls,
    ),
    Healing(
        "one_call",
        Level.TEMPLATE,
        "F80",
        "the template knows one call a turn",
        (
            [_calls(_CALL, _OTHER), _result("call_1"), _result("call_2")],
            [_calls(_CALL), _result("call_1"), _calls(_OTHER), _result("call_2")],
        ),
        results.split_calls,
    ),
    Healing(
        "assistant_last",
        Level.TEMPLATE,
        "F82",
        "the server takes an answer at the end for the beginning of the next one",
        ([_say("assistant", "Done.")], [_say("assistant", "Done."), _say("user", roles.CONTINUE)]),
        roles.end_with_user,
    ),
    Healing(
        "call_text",
        Level.TEMPLATE,
        "F83",
        "the template leaves out the text beside a call",
        (
            [{**_calls(_CALL), "content": "I look."}, _result("call_1")],
            [_say("assistant", "I look."), _calls(_CALL), _result("call_1")],
        ),
        contents.part_text_from_calls,
    ),
    Healing(
        "user_first",
        Level.TEMPLATE,
        "F82",
        "the template wants the user to begin",
        (
            [_say("assistant", "Hi")],
            [_say("user", roles.CONTINUE), _say("assistant", "Hi")],
        ),
        roles.begin_with_user,
    ),
    Healing(
        "user_after_result",
        Level.TEMPLATE,
        "F82",
        "the template takes no user behind a result",
        (
            [_calls(_CALL), _result("call_1"), _say("user", "And?")],
            [_calls(_CALL), _result("call_1", "text\n\nAnd?")],
        ),
        roles.put_text_into_results,
    ),
    Healing(
        "empty_answers",
        Level.TEMPLATE,
        "F83",
        "the template refuses an answer of nothing",
        ([_say("assistant", "")], [_say("assistant", contents.EMPTY_ANSWER)]),
        contents.fill_answers,
    ),
    Healing(
        "alternate",
        Level.TEMPLATE,
        "F82",
        "the template wants user and assistant in turn",
        ([_say("user", "One."), _say("user", "Two.")], [_say("user", "One.\n\nTwo.")]),
        roles.alternate,
    ),
    Healing(
        "mistral_ids",
        Level.TEMPLATE,
        "F49",
        "the template takes ids of nine letters and digits",
        (
            [_calls(_CALL), _result("call_1")],
            [_calls(_with_id("1549bbd55")), _result("1549bbd55")],
        ),
        results.mistral_ids,
    ),
    Healing(
        "kimi_ids",
        Level.TEMPLATE,
        "F50",
        "the model expects ids that say the name and the number of the call",
        (
            [_calls(_CALL), _result("call_1")],
            [_calls(_with_id("functions.read:0")), _result("functions.read:0")],
        ),
        results.kimi_ids,
    ),
)
