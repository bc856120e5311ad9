"""Where a model's thoughts are: in a field, in the text, and whether the prompt opens them."""

from __future__ import annotations

from collections.abc import Iterator

from proxy.codec.json_text import JsonObject
from proxy.doctor import words
from proxy.doctor.examination import Examination
from proxy.doctor.findings import Found, Level, Probe, Told, found
from proxy.doctor.reply import NO_REPLY
from proxy.healing.families import Family, Opens
from proxy.notations.thoughts import ALL_MARKERS, ReasoningMarkers, Section

_MOST_TOKENS = 1200


def _field(examination: Examination) -> Iterator[Found]:
    reply = examination.ask.chat(
        {
            "model": examination.model,
            "messages": [{"role": "user", "content": words.THINK}],
            "max_tokens": _MOST_TOKENS,
            "temperature": 0,
            "stream": False,
        }
    )
    if not reply.taken:
        yield found("thoughts_untold", why=reply.trouble or f"status {reply.status}: {reply.error[:160] or NO_REPLY}")
        return
    markers = _family_markers(examination)
    in_text = next((marker for marker in markers if _is_in(reply.text, marker)), None)
    if in_text is not None:
        field, known = _beside(reply.reasoning_field), _known(examination.family)
        yield found("thoughts_in_text", mark=in_text.closers[0], field=field, known=known)
    elif reply.reasoning_field:
        yield found("thoughts_in_field", field=reply.reasoning_field)
    else:
        yield found("no_thoughts")


def _known(family: Family | None) -> str:
    """The proxy's treatment of thoughts in the text of such a model, in words."""
    if family is None or not family.markers:
        return "knows no family of this model, and leaves them in the text of a chat reply unless a rule says otherwise"
    return f"knows the family ({family.name}) and tells them from the text where it looks for the calls itself"


def _beside(field: str) -> str:
    return f", beside the field {field}" if field else ""


def _family_markers(examination: Examination) -> tuple[ReasoningMarkers, ...]:
    family = examination.family
    return family.markers if family is not None and family.markers else ALL_MARKERS


def _is_in(text: str, marker: ReasoningMarkers) -> bool:
    """True if a thought ends in the text: what stands there before was one, whether it was opened there or not."""
    return marker.may_begin and any(closer.strip() and closer in text for closer in marker.closers)


def _opened(examination: Examination) -> Iterator[Found]:
    conversation: JsonObject = {"messages": [{"role": "user", "content": "Hello."}]}
    prompt = examination.prompts.prompt(conversation)
    if prompt is None or prompt.refused:
        yield found("opens_untold")
        return
    mark = _opener_at_the_end(prompt.text)
    if mark:
        yield _opens(mark, examination.family)
    elif examination.family is not None and examination.family.prompt.unsaid is Opens.YES:
        yield found("opens_not", family=examination.family.name)
    else:
        yield found("not_opened")


def _opener_at_the_end(prompt: str) -> str:
    """The mark that opens a thought at the end of a prompt, "" if none does."""
    openers = [marker.opener.strip() for marker in ALL_MARKERS if marker.section is not Section.TEXT]
    return next((opener for opener in openers if prompt.rstrip().endswith(opener)), "")


def _opens(mark: str, family: Family | None) -> Found:
    """The prompt opens a thought: is that known of the family?"""
    if family is None or not family.markers:
        return found("opened_unknown", mark=mark, known="no family of this model is known")
    if family.prompt.unsaid is Opens.YES:
        return found("opened_known", mark=mark, family=family.name)
    return found("opened_unknown", mark=mark, known=f"the family {family.name} does not")


PROBES = (
    Probe(
        "thoughts",
        "the model's thoughts",
        _field,
        (
            Told("thoughts_in_field", Level.GOOD, "thoughts come in the field {field}"),
            Told("no_thoughts", Level.NOTE, "the model said no thoughts"),
            Told(
                "thoughts_in_text",
                Level.HARM,
                "thoughts come in the text (…{mark}){field}",
                "the agent shows them, and sends them back as text; a call in them may be taken for one",
                "it {known}; Messages and Responses clients get them as thinking in any case",
                "the server's reasoning parser (vLLM, SGLang: --reasoning-parser; llama.cpp: --reasoning-format auto), "
                "or reasoning: split in the model's entry",
                rule=("reasoning", "split"),
            ),
            Told("thoughts_untold", Level.UNTOLD, "where thoughts come could not be told: {why}"),
        ),
    ),
    Probe(
        "opened",
        "whether the template opens a thought",
        _opened,
        (
            Told("not_opened", Level.GOOD, "the template opens no thought in the prompt"),
            Told(
                "opened_known",
                Level.GOOD,
                "the template opens a thought in the prompt ({mark}), as is known of the family {family}",
            ),
            Told(
                "opened_unknown",
                Level.NOTE,
                "the template opens a thought in the prompt ({mark}), and {known}",
                "a reply then begins in the midst of a thought: where the server leaves thoughts in the text, "
                "it cannot be told from the answer before it ends",
                "it takes what stands before the end of a thought for one, once that has come",
                "family: NAME in the model's entry, one of docs/thinking.md whose template does so",
            ),
            Told(
                "opens_not",
                Level.NOTE,
                "the template opens no thought in the prompt, as that of the family {family} does",
                "where the proxy tells thoughts from the text, it takes the answer for a thought until it ends",
                "a thought that never ends, and that only the prompt can have opened, is said as the answer at the end",
                "family: NAME in the model's entry, one of docs/thinking.md; or reasoning: server",
            ),
            Told("opens_untold", Level.UNTOLD, "whether the template opens a thought could not be told"),
        ),
    ),
)
