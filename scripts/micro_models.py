"""Small models of every trained family, made by transformers with random weights, for scripts/check-end-to-end.

A family has its own `model_type` and config, a tokenizer of its real kind that is trained on a few lines, its special
tokens, and a chat template with the traits of the real one.
"""
import json
from dataclasses import dataclass, field
from pathlib import Path

import datasets
import pyarrow
import torch
import transformers
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoConfig, AutoModelForCausalLM

TEMPLATES = Path(__file__).resolve().parent.parent / "tests/fixtures/templates"
QWEN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|"
        r"\s+")
LLAMA = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
# Templates with the traits of a family's own, where no file of tests/fixtures/templates has them.
MINISTRAL = """{{- bos_token }}{%- if messages[0].role == 'system' %}
{{- '[SYSTEM_PROMPT]' + messages[0].content + '[/SYSTEM_PROMPT]' }}{%- set messages = messages[1:] %}{%- endif %}
{%- for message in messages %}{%- if message.role == 'user' %}{{- '[INST]' + message.content + '[/INST]' }}
{%- else %}{{- message.content + eos_token }}{%- endif %}{%- endfor %}"""
SMOLLM3 = """{{- '<|im_start|>system\\n# Facts\\n\\nDate: ' + strftime_now('%d %B %Y') + '\\n\\n' }}
{%- if messages[0].role == 'system' %}{{- messages[0].content.rstrip() + '\\n' }}{%- endif %}{{- '<|im_end|>\\n' }}
{%- for message in messages %}{%- if message.role == 'user' %}
{{- '<|im_start|>user\\n' + message.content + '<|im_end|>\\n' }}{%- elif message.role == 'assistant' %}{%- generation %}
{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n' + message.content.lstrip('\\n') + '<|im_end|>\\n' }}
{%- endgeneration %}{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n<think>\\n\\n</think>\\n' }}{%- endif %}"""
THOUGHT = "{%- if add_generation_prompt %}{{- '<think>\\n' }}{%- endif %}"  # opened by the generation prompt


@dataclass
class Family:
    """A kind of model: its `model_type`, template, tokenizer and config."""
    kind: str
    template: str      # a text, or a file of tests/fixtures/templates
    cut: str           # how the tokenizer cuts text: qwen, llama, digits, gpt2; or SentencePiece: pieces, prefixed
    stops: list        # the tokens that end a completion: the tokenizer's eos_token first
    end: str           # the token that ends a turn
    bos: str | None = None
    others: tuple = ()
    config: dict = field(default_factory=dict)
    vision: dict | None = None  # the other config of a model that also reads images
    in_gguf: bool = False


def family(kind, template, cut, stops, others="", **more):
    stops = stops.split()
    return Family(kind, template, cut, stops, more.pop("end", stops[0]), others=tuple(others.split()), **more)


VISION = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 1,
          "image_size": 28, "patch_size": 14}
QWEN_VISION = {"hidden_size": 32, "out_hidden_size": 64, "intermediate_size": 48, "num_heads": 2, "depth": 1}
QWEN3 = ("thoughts_of_last_turns", "qwen", "<|im_end|> <|endoftext|>", "<|im_start|>")
QWEN35 = (QWEN3[0] + THOUGHT, *QWEN3[1:])
DELTA = {"head_dim": 32, "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
         "linear_num_value_heads": 4, "layer_types": ["linear_attention"] * 3 + ["full_attention"]}
GEMMA = ("system_in_first_turn", "pieces", "<eos> <end_of_turn>", "<start_of_turn>")
# transformers' reader of GGUF assumes head_dim = query_pre_attn_scalar = 256 in Gemma 3, and head_dim = 128 in Qwen3.
GEMMA_MORE = {"end": "<end_of_turn>", "bos": "<bos>", "in_gguf": True, "config": {
    "head_dim": 256, "num_attention_heads": 2, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
    "num_hidden_layers": 6, "sliding_window": 16}}
ROLES = "<|user|> <|assistant|> <|system|>"
INSTRUCT = "[INST] [/INST] [SYSTEM_PROMPT] [/SYSTEM_PROMPT]"
YARN = {"rope_type": "yarn", "rope_theta": 1e6, "factor": 16.0, "original_max_position_embeddings": 16,
        "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "llama_4_scaling_beta": 0.1}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "partial_rotary_factor": 0.75,
        "short_factor": [1.0, 1.1, 1.2, 1.3, 1.4, 1.5], "long_factor": [2.0, 2.3, 2.6, 2.9, 3.2, 3.5]}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 5e5, "factor": 32.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
GRANITE = ("roles_with_date", "digits", "<|end_of_text|>", "<|start_of_role|> <|end_of_role|>")
SCALES = {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "logits_scaling": 4.0,
          "attention_multiplier": 0.0625, "tie_word_embeddings": True}
DENSE = {"layer_types": ["attention"] * 4, "shared_intermediate_size": 160, "num_local_experts": 0,
         "num_experts_per_tok": 0, "position_embedding_type": "rope"}

FAMILIES = {
    "llama3": family("llama", "headers_guarded_date", "llama", "<|eot_id|> <|eom_id|> <|end_of_text|>",
                     "<|start_header_id|> <|end_header_id|>", bos="<|begin_of_text|>", in_gguf=True,
                     config={"rope_parameters": LLAMA3}),
    "smollm2": family("llama", "chatml_default_system", "digits", "<|im_end|>", bos="<|im_start|>", in_gguf=True,
                      config={"tie_word_embeddings": True}),
    "smollm3": family("smollm3", SMOLLM3, "llama", "<|im_end|>", "<|im_start|>", config={
        "no_rope_layers": [1, 1, 1, 0]}),
    "qwen2.5": family("qwen2", "chatml_default_system", *QWEN3[1:], in_gguf=True),
    "qwen3": family("qwen3", *QWEN3, in_gguf=True, config={"head_dim": 128}),
    "qwen3.5": family("qwen3_5_text", *QWEN35, config=DELTA),
    "qwen3.5-image": family("qwen3_5", *QWEN35, config=DELTA, vision=QWEN_VISION),
    "gemma3": family("gemma3_text", *GEMMA, **GEMMA_MORE),
    "gemma3-image": family("gemma3", *GEMMA, **GEMMA_MORE, vision=VISION),
    "mistral": family("mistral", "alternating_instructions", "prefixed", "</s>", bos="<s>", others="[INST] [/INST]",
                      config={"sliding_window": 24, "head_dim": 24}),
    "ministral3": family("ministral3", MINISTRAL, "llama", "</s>", INSTRUCT, bos="<s>", config={
        "rope_parameters": YARN}),
    "mistral3-image": family("mistral3", MINISTRAL, "llama", "</s>", INSTRUCT, bos="<s>", vision=VISION, config={
        "model_type": "ministral3", "head_dim": 16, "rope_parameters": YARN}),
    "phi3": family("phi3", "short_tags", "prefixed", "<|endoftext|> <|end|>", ROLES, end="<|end|>", bos="<s>",
                   config={"sliding_window": 24}),
    "phi4": family("phi3", "short_tags", "gpt2", "<|endoftext|> <|end|>", ROLES, end="<|end|>", config={
        "tie_word_embeddings": True, "original_max_position_embeddings": 512, "rope_parameters": LONG}),
    "olmo2": family("olmo2", "end_but_for_last", "llama", "<|endoftext|>", ROLES, bos="<|endoftext|>"),
    "olmo3": family("olmo3", "chatml_default_system", "llama", "<|im_end|> <|endoftext|>", "<|im_start|>", config={
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "sliding_window": 16}),
    "granite3": family("granite", *GRANITE, config=SCALES),
    "granite4": family("granitemoehybrid", *GRANITE, config=SCALES | DENSE),
}


def dataset(rows):
    """Rows for TRL, with a fingerprint of their own: datasets 5.2 cannot make one of a table of pyarrow 26."""
    table = datasets.table.InMemoryTable(pyarrow.Table.from_pylist(rows))
    return datasets.Dataset(table, fingerprint="rows")


def user(text):
    return {"role": "user", "content": text}


def row(total, *turns):
    return {"prompt": list(turns), "answer": total, "completion": [
        {"role": "assistant", "content": f"The sum is {total}, naïve ☕.\n#### {total}"}]}


def sums():
    """Rows for training, and chats: two of these rows, and others with blanks, a system message, and several turns."""
    brief = {"role": "system", "content": "Be brief. "}
    rows = [row(a + b, *([brief] if a % 2 else []), user(f"What is {a} + {b}?")) for a in (10, 3, 24) for b in (4, 8)]
    turns = [user("1 + 1?"), {"role": "assistant", "content": "2"}, user("What is 3 + 9?")]
    others = [row(33, user(" What is 25 + 8? ")), row(20, brief, user("  What's 12 + 8?\n")), row(12, *turns)]
    return rows, rows[1:3] + others


def tokenizer(model):
    """A BPE tokenizer of the family's kind: byte-level, or as SentencePiece makes them."""
    corpus = [part["content"] for one in sums()[0] for part in one["prompt"] + one["completion"]] * 2
    has_pieces = model.cut in ("pieces", "prefixed")
    regex, space = {"qwen": QWEN, "llama": LLAMA}.get(model.cut), normalizers.Replace(" ", "▁")
    first = pre_tokenizers.Split(Regex(regex), "isolated") if regex else pre_tokenizers.Digits(individual_digits=True)
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=not regex)
    learned = Tokenizer(models.BPE())
    learned.pre_tokenizer = byte_level if model.cut == "gpt2" else pre_tokenizers.Sequence([first, byte_level])
    if has_pieces:
        learned.normalizer, learned.pre_tokenizer = space, pre_tokenizers.Split("▁", "merged_with_next")
    alphabet = [] if has_pieces else pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=len(alphabet) + 90, initial_alphabet=alphabet, show_progress=False)
    learned.train_from_iterator(corpus, trainer)
    bpe = json.loads(learned.to_str())["model"]
    pieces = sorted(bpe["vocab"], key=bpe["vocab"].get)
    special = list(dict.fromkeys([model.bos] * bool(model.bos) + model.stops + ["<pad>", *model.others]))
    options = {"ignore_merges": model.cut == "llama"}
    if has_pieces:
        pieces = special + ["<unk>"] + [f"<0x{byte:02X}>" for byte in range(256)] + pieces
        options = {"byte_fallback": True, "unk_token": "<unk>", "fuse_unk": True}
    ids = {piece: id for id, piece in enumerate(pieces)}
    made = Tokenizer(models.BPE(ids, [tuple(merge) for merge in bpe["merges"]], **options))
    made.pre_tokenizer, made.decoder = learned.pre_tokenizer, decoders.ByteLevel()
    if model.cut == "qwen":
        made.normalizer = normalizers.NFC()
    if has_pieces:
        has_prefix = model.cut == "prefixed"
        made.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
        made.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), space]) if has_prefix else space
        made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                          *[decoders.Strip(" ", 1, 0)] * has_prefix])
    made.add_special_tokens(special)
    if "thought" in model.template or "think" in model.template:
        made.add_tokens(["<think>", "</think>"])
    parts = [] if has_pieces else [processors.ByteLevel(trim_offsets=False)]
    if model.bos and (has_pieces or model.cut == "llama"):
        begin = [(model.bos, made.token_to_id(model.bos))]
        parts.append(processors.TemplateProcessing(f"{model.bos} $A", special_tokens=begin))
    # One post-processor, or a sequence as in Llama 3's tokenizer.json.
    made.post_processor = parts[0] if len(parts) == 1 else processors.Sequence(parts)
    name = model.template.removesuffix(THOUGHT)
    text = name if "{" in name else (TEMPLATES / f"{name}.jinja").read_text()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, bos_token=model.bos, eos_token=model.stops[0], pad_token="<pad>",
        chat_template=text + THOUGHT * model.template.endswith(THOUGHT))


def make(model, folder):
    """A model with random weights, those of norms and biases too, in `folder`."""
    torch.manual_seed(0)
    words = tokenizer(model)
    ids = {"eos_token_id": words.convert_tokens_to_ids(model.stops), "pad_token_id": words.pad_token_id,
           "bos_token_id": words.bos_token_id}
    sizes = {"vocab_size": (len(words) + 63) // 64 * 64, "hidden_size": 64, "intermediate_size": 160,
             "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
             "initializer_range": 0.1, "tie_word_embeddings": False} | ids | model.config
    if model.vision is None:
        made = AutoModelForCausalLM.from_config(AutoConfig.for_model(model.kind, **sizes), dtype=torch.float32)
    else:
        # As for Gemma 3 and Ministral 3 by default, the whole ties the output layer and its text part says otherwise.
        config = AutoConfig.for_model(model.kind, text_config=sizes, vision_config=model.vision,
                                      tie_word_embeddings=model.kind != "qwen3_5")
        made = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() == 1:
                parameter += 0.1 * torch.randn_like(parameter)
    made.generation_config = transformers.GenerationConfig(**ids)
    made.save_pretrained(folder, max_shard_size="200KB")
    words.save_pretrained(folder)
