"""What the server's parser makes of the model's calls, told from its replies."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from proxy.codec.json_text import JsonObject
from proxy.doctor.calls import PROBES
from proxy.doctor.examination import Examination
from proxy.doctor.syntaxes import Trial
from proxy.errors import UpstreamTimeout
from tests.support.doctor_answers import CALL, GOOD, error, examination, found, ids, said, whole
from tests.support.socketless import Made

NO_PARSER = error('"auto" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set')
HERMES, CODER, LLAMA, MISTRAL = "Hermes' JSON", "Qwen3-Coder's XML", "Llama's JSON", "Mistral's list"
LATE = UpstreamTimeout("late")


@pytest.mark.parametrize(
    ("auto", "raw", "told"),
    [
        (whole("", GOOD), whole(CALL[HERMES]), ["parser_finds"]),
        (whole("", GOOD), whole(""), ["parser_finds", "none_takes_calls"]),
        (whole("", '{"path": "a'), whole(CALL[HERMES]), ["arguments_broken"]),
        (NO_PARSER, whole(CALL[HERMES]), ["parser_missing"]),
        (error("Failed to parse input at pos 0: <tool_call>", 500), whole(CALL[HERMES]), ["parser_fails"]),
        (whole(CALL[HERMES]), whole(CALL[HERMES]), ["parser_leaves_text"]),
        (whole(""), whole(CALL[HERMES]), ["call_swallowed"]),
        (whole(""), whole(""), ["all_swallowed"]),
        (whole(""), whole("I would rather not."), ["call_untold"]),
        (whole("I would rather not."), whole("I would rather not."), ["call_untold"]),
        # Nothing is swallowed where hardly a token was used, where it was cut off, or where it thought.
        (whole("", tokens=5), whole(CALL[HERMES]), ["call_untold"]),
        (whole("", finish="length"), whole(CALL[HERMES]), ["call_untold"]),
        (whole("", thoughts="Hm."), whole(CALL[HERMES]), ["call_untold"]),
        (error("too many requests", 429), whole(CALL[HERMES]), ["call_untold"]),
        (LATE, LATE, ["chat_unanswered"]),
        (error("no such path", 404), error("no such path", 404), ["chat_unanswered"]),
        (error("out of memory", 500), error("out of memory", 500), ["chat_unanswered"]),
        (error("out of memory", 500), whole(CALL[HERMES]), ["call_untold"]),
    ],
    ids=[
        *("found", "found under auto alone", "broken", "no parser", "the parser fails", "left in the text"),
        *("swallowed", "swallowed under none too", "not written", "declined", "few tokens", "cut off", "thought"),
        *("refused", "silent", "no chat", "fails at all", "fails under auto"),
    ],
)
def test_what_becomes_of_a_call(auto: Made, raw: Made, told: list[str]) -> None:
    plain = error("out of memory", 500)
    at = examination(said({"call auto": auto, "call none": raw, "plain": plain}))
    assert ids(PROBES, "calls", at) == told


def test_a_server_that_fails_at_tools_alone_does_answer() -> None:
    failed = error("out of memory", 500)
    at = examination(said({"call auto": failed, "call none": failed, "plain": whole("Yes.")}))
    (finding,) = found(PROBES, "calls", at)
    assert finding.what == "whether calls arrive could not be told: status 500: out of memory"


@pytest.mark.parametrize(
    ("kind", "model", "remedy"),
    [
        ("vllm", "Qwen3-Coder", "--enable-auto-tool-choice --tool-call-parser qwen3_xml; or parse: proxy in the"),
        ("vllm", "m", "no flag of the server's is known that mends it; or parse: proxy in the model's entry"),
        # It puts no tools into the prompt under `none`, so the proxy cannot find the calls there.
        ("sglang", "Qwen3-Coder", "--tool-call-parser qwen3_coder"),
    ],
    ids=["a known model", "an unknown one", "SGLang"],
)
def test_the_flag_that_mends_it_is_named_and_what_makes_it_needless(kind: str, model: str, remedy: str) -> None:
    at = examination(said({"call auto": NO_PARSER}), model, kind)
    (finding,) = found(PROBES, "calls", at)
    assert finding.remedy.startswith(remedy) and finding.rule == ("parse", "proxy")
    assert ("parse: proxy" in finding.remedy) == (kind == "vllm")


def test_what_the_server_said_is_shown_on_one_line_and_short() -> None:
    words = "--tool-call-parser\n\n" + "is needed " * 40
    (finding,) = found(PROBES, "calls", examination(said({"call auto": error(words)})))
    shown = finding.what.partition("parser: ")[2]
    assert shown.startswith("--tool-call-parser is needed is") and shown.endswith("...") and len(shown) == 160


def repeating(parses: tuple[str, ...], writes: str = HERMES, raw: str = "") -> Examination:
    """Of a server whose parser reads the syntaxes in `parses`; its model repeats what it is to, or says `raw`."""
    own = whole(CALL[writes])
    table = {"call auto": whole("", GOOD) if writes in parses else own, "call none": own}

    def answer(path: str, body: JsonObject) -> Made:
        asked = str(body["messages"])
        name = next((each for each in (HERMES, CODER, LLAMA) if repr(CALL[each])[1:-1] in asked), "")
        if not name:
            return said(table)(path, body)
        if body["tool_choice"] == "auto" and name in parses:
            return whole("", GOOD)
        return whole(raw or CALL[name])

    return examination(answer)


def trials(at: Examination) -> Mapping[str, Trial]:
    """What becomes of a call in each syntax."""
    found(PROBES, "syntaxes", at)
    return at.trials


def test_a_syntax_is_read_if_a_call_in_it_comes_as_that_call() -> None:
    became = trials(repeating((HERMES, CODER)))
    assert (became[HERMES], became[CODER], became[LLAMA]) == (Trial.READ, Trial.READ, Trial.UNREAD)
    assert became["Kimi's sections"] is Trial.SPECIAL and became["GLM's pairs"] is Trial.UNLIKELY


def test_a_model_that_calls_instead_of_repeating_tells_nothing_of_the_syntax() -> None:
    became = trials(repeating((HERMES, CODER), raw=CALL[HERMES]))
    assert (became[HERMES], became[CODER]) == (Trial.READ, Trial.UNWRITTEN)


def test_of_marks_that_no_model_repeats_its_own_call_is_the_trial() -> None:
    assert trials(repeating((MISTRAL,), MISTRAL))[MISTRAL] is Trial.READ
    assert trials(repeating((), MISTRAL))[MISTRAL] is Trial.UNREAD


@pytest.mark.parametrize(
    ("writes", "told"),
    [
        (CODER, "reads Hermes' JSON, and the model writes Qwen3-Coder's XML: it is another family's"),
        (HERMES, "reads Hermes' JSON"),
    ],
    ids=["another", "its own"],
)
def test_a_parser_of_another_family_is_told(writes: str, told: str) -> None:
    (finding,) = found(PROBES, "syntaxes", repeating((HERMES,), writes))
    assert finding.what == f"the server's parser {told}"


@pytest.mark.parametrize(
    ("auto", "raw", "echo", "told"),
    [
        (NO_PARSER, whole(CALL[HERMES]), NO_PARSER, "syntaxes_none"),
        (whole("", GOOD), whole(CALL[CODER]), LATE, "syntaxes_untold"),
        (whole("", GOOD), whole(CALL[MISTRAL]), whole("no"), "syntaxes"),
        (whole(CALL[MISTRAL]), whole(CALL[MISTRAL]), whole("no"), "syntaxes_untold"),
    ],
    ids=["no parser", "no answer", "its own", "none"],
)
def test_which_syntaxes_are_read_is_told(auto: Made, raw: Made, echo: Made, told: str) -> None:
    at = examination(said({"call auto": auto, "call none": raw, "echo auto": echo, "echo none": echo}))
    assert ids(PROBES, "syntaxes", at) == [told]


@pytest.mark.parametrize(
    ("reply", "told", "shown"),
    [
        (whole("", GOOD), "forced", ""),
        (whole("", GOOD, "[1]"), "forced_broken", "no JSON object: [1]"),
        (NO_PARSER, "forced_refused", "a forced call is refused: "),
        (error("no", 422), "forced_untold", "could not be told: status 422: no"),
        (LATE, "forced_untold", "there was no answer within 60 s"),
        (whole("Done."), "forced_ignored", "no call comes: Done."),
        (whole(""), "forced_ignored", "no call comes: nothing"),
        (whole("The file", finish="length"), "forced_untold", "cut off by its length"),
    ],
    ids=["a call", "broken", "refused", "an error", "silent", "prose", "nothing", "cut off"],
)
def test_a_forced_call_is_told(reply: Made, told: str, shown: str) -> None:
    (finding,) = found(PROBES, "forced", examination(said({"call required": reply})))
    assert finding.id == told and shown in finding.what


@pytest.mark.parametrize(
    ("says", "model", "told"),
    [
        (None, "m", "the server does not say its flags"),
        (None, "Qwen3-8B", "the server does not say its flags; the model's name suggests --tool-call-parser qwen25"),
        (b"{}", "Qwen3-8B", "the server says that it has no tool parser"),
        (b'{"tool_call_parser": "qwen25"}', "Qwen3-8B", "the server says that its tool parser is qwen25"),
        (b'{"tool_call_parser": "x"}', "m", "the server says that its tool parser is x"),
        (
            b'{"tool_call_parser": "llama3"}',
            "Qwen3-8B",
            "the server says that its tool parser is llama3; the model's name suggests qwen25",
        ),
    ],
    ids=["unsaid", "unsaid of a known model", "none", "the right one", "one of an unknown model", "another one"],
)
def test_what_the_server_says_of_its_parser_is_held_against_the_models_name(
    says: bytes | None, model: str, told: str
) -> None:
    path = "/get_server_info"
    at = examination(said({}, {path: (200, says or b"")}), model, "sglang")
    if says is not None:
        at.answers[path] = at.ask.get(path)
    (finding,) = found(PROBES, "flags", at)
    assert finding.what == told
