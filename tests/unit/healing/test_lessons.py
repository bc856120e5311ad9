"""What the words of a refusal teach, and that nothing is learnt of others."""

from __future__ import annotations

from typing import Any

import pytest

from proxy.healing.heal import NO_HEALING, HealPlan, heal_request, lesson
from tests.healing.shapes import (
    CALLS,
    CONTENTS,
    HEALTHY,
    RESULTS,
    ROLES,
    TOOLS,
    call,
    calls,
    result,
    said,
    system,
    tool,
    user,
)

Message = dict[str, Any]
TWO = [user(), calls(call(), call(2)), result(), result(2)]
OLD_ID = RESULTS["ids of OpenAI"]

# Words of real templates and servers, a conversation that they refuse, and what they teach.
REFUSALS: list[tuple[str, list[Message], tuple[str, ...]]] = [
    ("This model only supports single tool-calls at once!", TWO, ("one_call",)),
    ("Tool call IDs should be alphanumeric strings with length 9!", OLD_ID, ("mistral_ids",)),
    ("System message must be at the beginning.", ROLES["system later"], ("late_system", "alternate")),
    ("Unexpected message role.", ROLES["two systems"], ("one_system",)),
    ("System role not supported", HEALTHY["plain"], ("no_system",)),
    ("No user query found in messages.", ROLES["only system"], ("user_first",)),
    (
        "After the optional system message, conversation roles must alternate user/assistant/user/assistant/...",
        ROLES["user, user"],
        ("alternate",),
    ),
    ("Unexpected role 'user' after role 'tool'", ROLES["user behind a result"], ("user_after_result",)),
    (
        "Assistant response prefill is incompatible with enable_thinking.",
        ROLES["assistant last"],
        ("assistant_last",),
    ),
    ("At most 0 image(s) may be provided in one prompt.", CONTENTS["picture"], ("pictures",)),
    ("image input is not supported - hint: you may need to provide the mmproj", CONTENTS["picture"], ("pictures",)),
    (
        "Cannot pass both content and thinking in an assistant message with tool calls!",
        CONTENTS["field thinking"],
        ("call_text",),
    ),
    ('can only concatenate str (not "list") to str', CONTENTS["user of parts"], ("flat_texts",)),
    (
        "Assistant message must have a string or a list of chunks in content or a list of tool calls.",
        ROLES["assistant empty"],
        ("empty_answers",),
    ),
    ('can only concatenate str (not "NoneType") to str', CALLS["null beside a call"], ("null_beside_calls",)),
    (
        "The `reasoning_content` in the thinking mode must be passed back to the API.",
        RESULTS["results in another order"],
        ("reasoning_back",),
    ),
    (
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        HEALTHY["one call"],
        ("reasoning_back",),
    ),
    ("'list object' has no element -1 (Jinja)", ROLES["only system"], ("user_first",)),
]


def body(messages: list[Message], offered: Message | None = None) -> Message:
    return {"model": "m", "messages": messages, "tools": [offered or tool()]}


@pytest.mark.parametrize("words,messages,learnt", REFUSALS, ids=[words for words, _, _ in REFUSALS])
def test_a_refusal_teaches_what_its_words_ask_for(words: str, messages: list[Message], learnt: tuple[str, ...]) -> None:
    asked = heal_request(body(messages), HealPlan()).body
    found = lesson(words, asked, HealPlan())
    assert found == learnt
    healed = heal_request(asked, HealPlan().learnt(found)).body
    assert lesson(words, healed, HealPlan().learnt(found)) == (), "it is learnt once"


@pytest.mark.parametrize(
    "words,shape,learnt",
    [
        ("failed to parse grammar", "$ref", "plain_schemas"),
        ("'dict object' has no attribute 'description'", "no description", "tool_descriptions"),
        ("tools.0.function.name: String should match pattern '^[a-zA-Z0-9_-]+$'", "a long name", "tool_names"),
        ("maximum recursion depth exceeded", "types in a list", "plain_schemas"),
    ],
)
def test_a_refusal_of_a_tool_teaches_too(words: str, shape: str, learnt: str) -> None:
    assert learnt in lesson(words, body([user()], TOOLS[shape]), HealPlan())


@pytest.mark.parametrize(
    "words",
    [
        "",
        "Unauthorized",
        "The model `m` does not exist.",
        "max_tokens is too large",
        "This model's context is 4096 tokens",
    ],
)
def test_other_words_teach_nothing(words: str) -> None:
    for messages in (*ROLES.values(), *CONTENTS.values()):
        assert lesson(words, body(messages), HealPlan()) == ()


@pytest.mark.parametrize(
    "words",
    [
        "At most 0 image(s) may be provided in one prompt.",
        "At most 0 image(s) may be provided in one request.",
        "tiny is not a multimodal model",
        "tiny is not a multimodal model None",
        "This model does not support image input",
        "Error: Model does not support images. Please use a model that does.",
        "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj",
        "image_url is only supported by certain models",
        "Unknown part type: image_url",
        'Failed to parse messages: Unsupported content part type: "image_url"',
        "unsupported content[].type",
        "Unsupported content part type for text-only server: image_url",
        "Vision add-on is not loaded, but images were provided for processing",
        "Images are not supported by this model",
        "This model cannot process images",
        "tiny is not a vision model",
        "audio input is not supported",
    ],
)
def test_that_a_model_reads_no_pictures_is_learnt(words: str) -> None:
    assert lesson(words, body(CONTENTS["picture"]), HealPlan()) == ("pictures",)


@pytest.mark.parametrize(
    "words",
    [
        "At most 1 image(s) may be provided in one request.",
        "At most 10 image(s) may be provided in one prompt.",
        "cannot identify image file <_io.BytesIO object at 0x7f>",
        "Failed to load image: Incorrect padding",
        "Failed to load image or audio file",
        "unsupported image format: webp",
        "Image format webp is not supported",
        "image/svg+xml is not supported",
        "Unsupported image URL scheme: file",
        "The image is too large",
        "Decoder prompt (length 5000) is longer than the maximum; image tokens: 4000",
        "HTTPConnectionPool: timed out while the image was fetched",
        "Failed to apply HFProcessor on data={'text': '<image>'} with kwargs={}",
        "CUDA out of memory in the vision tower",
        "Input should be a valid image",
        "Could not process image",
        "The file is not an image",
        "not an image: data:text/plain",
        "Images larger than 20 MB are not supported",
        "This model does not support images larger than 20 MB",
        "Animated images are not supported",
        "The image webp is not supported",
        "Image with 5 channels is not supported",
        "image_url is only supported as https",
    ],
)
def test_what_is_said_of_one_picture_takes_none_from_a_model_that_reads_them(words: str) -> None:
    assert "pictures" not in lesson(words, body(CONTENTS["picture"]), HealPlan())


def test_where_texts_in_parts_are_refused_pictures_stay() -> None:
    """The words say nothing of pictures."""
    messages = [*CONTENTS["picture"], said(), *CONTENTS["user of parts"]]
    assert lesson('can only concatenate str (not "list") to str', body(messages), HealPlan()) == ("flat_texts",)


@pytest.mark.parametrize("words,messages,learnt", REFUSALS, ids=[words for words, _, _ in REFUSALS])
def test_what_is_off_is_not_learnt(words: str, messages: list[Message], learnt: tuple[str, ...]) -> None:
    assert lesson(words, body(messages), NO_HEALING) == ()
    off = HealPlan(off=frozenset(learnt))
    assert not {*learnt} & {*lesson(words, body(messages), off)}


def test_a_plan_that_learnt_keeps_what_it_had() -> None:
    plan = HealPlan(on=frozenset(("one_call",)), off=frozenset(("pictures",))).learnt(("alternate", "pictures"))
    assert {"one_call", "alternate"} <= plan.ids and "pictures" not in plan.ids


def test_only_the_beginning_of_a_long_message_is_read() -> None:
    """C7."""
    asked = body([system(), user(), said(), system("mks2"), user()])
    assert lesson("x" * 5000 + "System message must be at the beginning.", asked, HealPlan()) == ()
