"""Syntaxes of calls: each is recognized, and the flags name the server's own parsers."""

from __future__ import annotations

import pytest

from proxy.doctor.examination import SYNTAXES, written_in
from proxy.doctor.probes import flags
from proxy.healing.families import FAMILIES, Parsers, family_of
from tests.support.doctor_scripts import CALLS
from tests.support.rows import rows


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_a_call_is_recognized_by_its_syntax(syntax: str) -> None:
    assert written_in(CALLS[syntax]) == [syntax]


@pytest.mark.parametrize(
    "text", ["", "I would rather not.", "Use `write_file`.", '{"path": "doctor.txt"', "<tool_call>"]
)
def test_other_text_has_no_syntax(text: str) -> None:
    assert written_in(text) == []


def test_two_calls_are_reported_twice() -> None:
    hermes = CALLS["Hermes' JSON"]
    assert written_in(f"So.\n{hermes}\n{hermes}") == ["Hermes' JSON"] * 2


def parsers(model: str) -> Parsers | None:
    family = family_of(model)
    return None if family is None else family.parsers


@rows(__file__, "model,syntax,vllm")
def test_the_models_name_suggests_the_syntax_and_the_parser(model: str, syntax: str, vllm: str) -> None:
    own = parsers(model)
    assert own is not None and (own.syntax, own.vllm) == (syntax, vllm)
    assert flags("vllm", parsers(model), "") == f"--enable-auto-tool-choice --tool-call-parser {vllm}"
    # The model's output takes precedence over its name.
    assert flags("vllm", parsers(model), syntax) == f"--enable-auto-tool-choice --tool-call-parser {vllm}"


@rows(__file__, "syntax,vllm,sglang")
def test_the_output_of_an_unknown_model_suggests_the_general_parser(syntax: str, vllm: str, sglang: str) -> None:
    assert flags("vllm", None, syntax) == f"--enable-auto-tool-choice --tool-call-parser {vllm}"
    assert flags("sglang", None, syntax) == f"--tool-call-parser {sglang}"


def test_the_models_output_takes_precedence_over_its_name() -> None:
    assert flags("vllm", parsers("Qwen/Qwen3-8B"), "Qwen3-Coder's XML").endswith(" qwen3_xml")
    assert flags("sglang", parsers("Qwen/Qwen3-8B"), "Qwen3-Coder's XML") == "--tool-call-parser qwen3_coder"


@pytest.mark.parametrize(
    ("kind", "model", "syntax"),
    [("vllm", "my-model", ""), ("lmdeploy", "Qwen3-8B", "Hermes' JSON"), ("", "Qwen3-8B", ""), ("sglang", "lfm2", "")],
)
def test_without_a_known_parser_no_flag_is_suggested(kind: str, model: str, syntax: str) -> None:
    assert flags(kind, parsers(model), syntax) == ""


def test_every_family_names_an_existing_syntax() -> None:
    rows = [family.parsers for family in FAMILIES if family.parsers]
    assert {row.syntax for row in rows} - {""} == SYNTAXES.keys()
    assert all(row.vllm for row in rows)


def test_llama_cpp_parses_by_its_chat_template() -> None:
    assert flags("llamacpp", parsers("Qwen3-8B"), "Hermes' JSON").startswith("--chat-template-file ")
    assert flags("llamacpp", parsers("Qwen3-8B"), "") == "", "a name alone is not enough"
