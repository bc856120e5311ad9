"""`python -m tests.real.vllm_model FOLDER`: write a model without weights for vLLM. Use vLLM's Python.

Its tokenizer is byte-level like Qwen's, and trained on the scripts. It has the markers of calls and reasoning of many
families, because parsers look them up in the vocabulary at the start. `--load-format dummy` fills its only layer. Its
replies are scripted (`vllm_script`).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

SCRIPTS = Path(__file__).parent / "scripts.json"
WORDS = 2000
CONTEXT = 131072  # the length for which agents are configured
END = "<|im_end|>"
# Dropped from a reply unless the request has `skip_special_tokens: false`, as in the families with these tokens.
SPECIAL = (
    *("<|endoftext|>", "<|im_start|>", END),
    *("[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_CALLS]", "[TOOL_RESULTS]"),
    *("[/TOOL_RESULTS]", "[ARGS]", "[CALL_ID]", "[THINK]", "[/THINK]"),
    *("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>"),
    "<|tool_call_argument_begin|>",
    *("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>"),
    "<｜tool▁sep｜>",
    *("<|python_tag|>", "<|tool_call|>", "<|/tool_call|>"),
)
# Markers that are text, one token each.
PLAIN = (
    *("<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<minimax:tool_call>", "</minimax:tool_call>"),
)


def tokenizer() -> PreTrainedTokenizerFast:
    """Return a byte-level tokenizer with these markers."""
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=WORDS, special_tokens=[*SPECIAL], initial_alphabet=alphabet, show_progress=False
    )
    scripts = json.loads(SCRIPTS.read_text(encoding="utf-8"))
    made.train_from_iterator([text for texts in scripts.values() for text in texts], trainer)
    made.add_tokens([AddedToken(text, special=False, normalized=False) for text in PLAIN])
    return PreTrainedTokenizerFast(tokenizer_object=made, eos_token=END, pad_token=SPECIAL[0])


def config(words: int, end: int) -> dict[str, object]:
    """Return the model's configuration for vLLM."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": words,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
        "head_dim": 32,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "max_position_embeddings": CONTEXT,
        "tie_word_embeddings": True,
        "bos_token_id": None,
        "eos_token_id": end,
        "dtype": "bfloat16",
    }


def main(folder: Path) -> None:
    words = tokenizer()
    words.save_pretrained(folder)
    said = json.dumps(config(len(words), words.eos_token_id), indent=1)
    (folder / "config.json").write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
