"""Build a tiny, fully deterministic language model for real inference servers.

The model is a valid one-layer Llama network (< 5 MB), but its weights are
written by hand, not trained: attention and feed-forward add nothing, so the
next token depends on the current token alone, and the output matrix is a
table "after token A comes token B".  The chat template ends every prompt with
a control token that starts one of the scripts below, so a request picks what
the real server will stream:

* a word in double square brackets in the last user message, ``[[tools2]]``,
  picks the script of that name (see SCRIPTS);
* else, after a tool result: ``answer``; with tools offered: ``tool``;
  otherwise ``text``.

Under grammar-constrained decoding (JSON schema, tool_choice "required") the
sampler may leave the script; unscripted tokens then prefer to close strings
and objects, so constrained output ends quickly and is valid JSON.

Usage:
    python make_tiny_model.py gguf OUT.gguf     (needs: gguf, numpy)
    python make_tiny_model.py hf   OUT_DIR      (needs: safetensors, numpy)
"""

from __future__ import annotations

import json
import pathlib
import re
import sys
from collections.abc import Collection
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]

CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s", "unit": "celsius"}}\n</tool_call>'
SCRIPTS = {
    "text": 'Hello there! This is a small scripted model. It says "quoted words", a back\\slash,\n'
    "a new line, caf\u00e9, \u4e16\u754c and \U0001f600. That is all.",
    "tool": CALL % "Paris",
    "tools2": CALL % "Paris" + "\n" + CALL % "Tokyo",
    "say_tool": "Let me look that up.\n" + CALL % "Oslo",
    "answer": "The weather there is sunny, about 21 degrees.",
    "think": "<think>\nThe user wants a short reply.\n</think>\n\nShort reply it is.",
    "think_tool": "<think>\nI need the weather first.\n</think>\n\n" + CALL % "Rome",
    "json": '{"answer": "forty-two", "score": 42}',
    "badtool": '<tool_call>\n{"name": "get_weather", "arguments": {"city": ',
    "loop": "tick tock ",  # repeats until max_tokens
}
TAGS = ["<think>", "</think>", "<tool_call>", "</tool_call>"]
WHOLE_TAGS = {"tool", "think"}  # scripts in which a tag is one token; elsewhere it is cut up
ROLES = ["system", "user", "assistant", "tool"]
END = "<|end|>"
DIM, HEADS, HEAD_DIM, FFN, CTX = 512, 2, 64, 32, 32768
SCALE = 32.0  # logit of a scripted step; the priors below stay under 6

TEMPLATE = r"""{%- set ns = namespace(script="text", last="") -%}
{%- if tools %}{% set ns.script = "tool" %}
{{- "<|system|>You may call tools:\n" }}
{%- for t in tools %}{{ t | tojson }}{{ "\n" }}{% endfor %}
{{- "<|end|>\n" }}{% endif -%}
{%- for m in messages -%}
{{- "<|" ~ m.role ~ "|>" }}
{%- if m.role == "assistant" and m.reasoning_content %}{{ "<think>\n" ~ m.reasoning_content ~ "\n</think>\n\n" }}{% endif -%}
{%- if m.content is string %}{% set ns.last = m.content %}{{ m.content }}
{%- elif m.content %}{% for p in m.content %}{% if p.text %}{% set ns.last = p.text %}{{ p.text }}{% endif %}{% endfor %}{% endif -%}
{%- if m.tool_calls %}{% for c in m.tool_calls %}
{{- "\n<tool_call>\n{\"name\": \"" ~ c.function.name ~ "\", \"arguments\": " }}
{%- if c.function.arguments is string %}{{ c.function.arguments }}{% else %}{{ c.function.arguments | tojson }}{% endif %}
{{- "}\n</tool_call>" }}{% endfor %}{% endif -%}
{{- "<|end|>\n" }}
{%- if m.role == "tool" %}{% set ns.script = "answer" %}{% endif -%}
{%- endfor -%}
{%- for s in SCRIPT_NAMES %}{% if "[[" ~ s ~ "]]" in ns.last %}{% set ns.script = s %}{% endif %}{% endfor -%}
{%- if add_generation_prompt %}{{ "<|assistant|><|s:" ~ ns.script ~ "|>" }}{% endif -%}
""".replace("SCRIPT_NAMES", json.dumps(list(SCRIPTS)))  # noqa: E501


def pieces(run: str, used: set[str]) -> list[str] | None:
    """Cut an ASCII run into pieces of 3 or more characters that are all new; None if there is no such cut."""
    if not run:
        return []
    for n in range(min(3, len(run)), len(run) + 1):
        if run[:n] not in used:
            rest = pieces(run[n:], used | {run[:n]})
            if rest is not None:
                return [run[:n], *rest]
    return None


def split_unique(text: str, used: set[str], whole: Collection[str] = ()) -> list[str]:
    """Cut text into tokens used nowhere else, so that each has one successor.

    The strings in whole stay one token.  A non-ASCII character becomes its
    UTF-8 bytes (one token per byte), so a server has to put it together again.
    """
    runs: list[str] = []
    for part in re.split(f"({'|'.join(whole)})", text) if whole else [text]:
        runs += [part] if part in whole else re.findall(r"[\x00-\x7f]+|[^\x00-\x7f]+", part)
    out: list[str] = []
    for run in runs:
        new: list[str] | None
        if run in whole:
            new = [run]
        else:
            new = pieces(run, used) if run.isascii() else [f"<0x{b:02X}>" for b in run.encode()]
        if new is None or len(set(new)) < len(new) or used & set(new):
            raise ValueError(f"cannot cut {run!r} into unused tokens")
        used.update(new)
        out += new
    return out


def build() -> tuple[list[str], list[str], dict[int, int], dict[str, int]]:
    """Return (tokens, kinds, next id by id, id by token): kinds are 'c'ontrol, 'b'yte, 'u'ser, 'n'ormal."""
    tokens = ["<unk>", "<s>", END] + [f"<|{r}|>" for r in ROLES] + [f"<|s:{s}|>" for s in SCRIPTS]
    kinds = ["c"] * len(tokens)
    tokens += [f"<0x{b:02X}>" for b in range(256)]
    kinds += ["b"] * 256
    tokens += TAGS
    kinds += ["u"] * len(TAGS)
    # Single characters as ordinary tokens, so that any ASCII prompt is readable.
    chars = [chr(c) for c in range(32, 127)] + ["\n"]
    tokens += chars
    kinds += ["n"] * len(chars)
    ids = {t: i for i, t in enumerate(tokens)}
    nxt: dict[int, int] = {}
    used = set(chars)
    for name, text in SCRIPTS.items():
        cur = start = ids[f"<|s:{name}|>"]
        for piece in split_unique(text, used, TAGS if name in WHOLE_TAGS else ()):
            if piece not in ids:
                ids[piece] = len(tokens)
                tokens.append(piece)
                kinds.append("n")
            nxt[cur] = cur = ids[piece]
        nxt[cur] = nxt[start] if name == "loop" else ids[END]
    return tokens, kinds, nxt, ids


def weights(tokens: list[str], nxt: dict[int, int], ids: dict[str, int]) -> tuple[Floats, Floats]:
    """Embedding E and output W with W @ norm(E[a]) peaking at next(a).

    Each scripted token has its own row of a Hadamard matrix as embedding: rows
    are orthogonal, so the table is exact.  All other tokens share row 0.
    Column 0 is always 1 and lets W hold a prior that only they feel.
    """
    idx = np.arange(DIM)
    parity: Any = sum((idx[:, None] & idx[None, :]) >> k & 1 for k in range(DIM.bit_length()))
    rows = np.where(parity % 2, -1.0, 1.0).astype(np.float32)
    emb = np.tile(rows[0], (len(tokens), 1))
    out = np.zeros_like(emb)
    for k, (a, b) in enumerate(nxt.items(), start=1):
        emb[a] = rows[k]
        out[b, 1:] += SCALE * rows[k, 1:] / (DIM - 1)
    prior = {
        END: 5.0, '"': 4.5, "}": 4.0, "]": 3.5, ":": 3.0, "<": 2.8, ",": 2.5, "7": 2.0,
        " ": -3.0, "\n": -3.0, "<0x09>": -3.0, "<0x0A>": -3.0, "<0x0D>": -3.0, "<0x20>": -3.0,
    }  # fmt: skip
    for t, v in prior.items():
        out[ids[t], 0] = v
    return emb, out


def zeros(*shape: int) -> Floats:
    """A matrix that adds nothing."""
    return np.zeros(shape, dtype=np.float32)


def tensors(hf: bool) -> tuple[dict[str, Floats], list[str], list[str]]:
    """All tensors by name, in GGUF or Hugging Face naming; the tokens and their kinds."""
    tokens, kinds, nxt, ids = build()
    emb, out = weights(tokens, nxt, ids)
    one = np.ones(DIM, dtype=np.float32)
    t = {
        "token_embd": emb, "output": out, "output_norm": one, "attn_norm": one, "ffn_norm": one,
        "attn_q": zeros(HEADS * HEAD_DIM, DIM), "attn_k": zeros(HEADS * HEAD_DIM, DIM),
        "attn_v": zeros(HEADS * HEAD_DIM, DIM), "attn_output": zeros(DIM, HEADS * HEAD_DIM),
        "ffn_gate": zeros(FFN, DIM), "ffn_up": zeros(FFN, DIM), "ffn_down": zeros(DIM, FFN),
    }  # fmt: skip
    top = ("token_embd", "output", "output_norm")
    if not hf:
        return {(k if k in top else "blk.0." + k) + ".weight": v for k, v in t.items()}, tokens, kinds
    names = {
        "token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm",
        "attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
        "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
        "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj",
        "ffn_down": "mlp.down_proj",
    }  # fmt: skip
    named = {(names[k] if k in top else "model.layers.0." + names[k]) + ".weight": v for k, v in t.items()}
    return named, tokens, kinds


def write_gguf(path: str) -> None:
    """Write the model as one GGUF file (matrices F16, norms F32)."""
    import gguf

    ts, tokens, kinds = tensors(hf=False)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("tiny-scripted")
    w.add_context_length(CTX)
    w.add_embedding_length(DIM)
    w.add_block_count(1)
    w.add_feed_forward_length(FFN)
    w.add_head_count(HEADS)
    w.add_head_count_kv(HEADS)
    w.add_layer_norm_rms_eps(1e-6)
    w.add_key_length(HEAD_DIM)
    w.add_value_length(HEAD_DIM)
    w.add_rope_dimension_count(HEAD_DIM)
    w.add_vocab_size(len(tokens))
    w.add_tokenizer_model("llama")
    w.add_tokenizer_pre("default")
    w.add_token_list([t.replace(" ", "\u2581") if k == "n" else t for t, k in zip(tokens, kinds, strict=True)])
    w.add_token_scores([float(-i) for i in range(len(tokens))])
    kind = {
        "c": gguf.TokenType.CONTROL, "b": gguf.TokenType.BYTE, "u": gguf.TokenType.USER_DEFINED,
        "n": gguf.TokenType.NORMAL,
    }  # fmt: skip
    w.add_token_types([gguf.TokenType.UNKNOWN if i == 0 else kind[k] for i, k in enumerate(kinds)])
    w.add_unk_token_id(0)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)
    w.add_add_bos_token(False)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(False)
    w.add_chat_template(TEMPLATE)
    for name, a in ts.items():
        w.add_tensor(name, a if a.ndim == 1 else a.astype(np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def write_hf(path: str) -> None:
    """Write config, safetensors and tokenizer files that transformers and vLLM load."""
    from safetensors.numpy import save_file

    folder = pathlib.Path(path)
    folder.mkdir(parents=True, exist_ok=True)
    ts, tokens, kinds = tensors(hf=True)
    matrices = {k: v.astype(np.float16) for k, v in ts.items()}
    save_file(matrices, str(folder / "model.safetensors"), metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)

    def dump(name: str, obj: dict[str, Any]) -> None:
        (folder / name).write_text(json.dumps(obj, indent=1, ensure_ascii=True) + "\n")

    dump("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float16",
        "vocab_size": len(tokens), "hidden_size": DIM, "intermediate_size": FFN, "num_hidden_layers": 1,
        "num_attention_heads": HEADS, "num_key_value_heads": HEADS, "head_dim": HEAD_DIM,
        "max_position_embeddings": CTX,
        "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": False,
        "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2,
    })  # fmt: skip
    dump("generation_config.json", {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 2, "do_sample": False})
    dump("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None, "post_processor": None, "pre_tokenizer": None,
        "added_tokens": [
            {"id": i, "content": t, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
             "special": k == "c"}
            for i, (t, k) in enumerate(zip(tokens, kinds, strict=True)) if k in "cu"
        ],
        "normalizer": {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"}]},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": "<unk>", "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": True, "merges": [],
            "vocab": {
                (t.replace(" ", "\u2581") if k == "n" else t): i
                for i, (t, k) in enumerate(zip(tokens, kinds, strict=True))
            },
        },
    })  # fmt: skip
    dump("tokenizer_config.json", {
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": END, "unk_token": "<unk>",
        "pad_token": END, "clean_up_tokenization_spaces": False, "model_max_length": CTX,
        # How `transformers serve` cuts the model's text into reasoning, tool calls and content.
        "response_template": {
            "defaults": {"role": "assistant"}, "start_anchor_pattern": r"<\|assistant\|><\|s:\w+\|>", "fields": {
                "reasoning_content": {"open": "<think>", "close": "</think>", "content": "text"},
                "tool_calls": {"open_pattern": r"\s*<tool_call>", "close": "</tool_call>", "repeats": True,
                               "content": "json", "transform": {"type": "function", "function": "{content}"}},
                "content": {"close": END, "content": "text"}}},
    })  # fmt: skip
    (folder / "chat_template.jinja").write_text(TEMPLATE)


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in ("gguf", "hf"):
        sys.exit(__doc__)
    (write_gguf if sys.argv[1] == "gguf" else write_hf)(sys.argv[2])
