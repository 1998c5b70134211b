#!/usr/bin/env python3
"""What lease.sh needs beside a shell; every command is one of its parts, or a line of its summary.

    tools.py unpack ARCHIVE DIR           an archive, by Python's lzma: xz may not be installed
    tools.py model DIR small|full         the shape of Qwen2.5-0.5B with random weights and a tokenizer, by transformers
    tools.py greedy DIR DEVICE TOKENS     transformers' greedy tokens of that model, and their log-probability
    tools.py curves NAME=RUN ...          rewards of training runs, step by step against the first
    tools.py same FIRST SECOND            completions of two evaluations
    tools.py profile CSV                  time and bytes by kernel, of what ncu wrote
    tools.py memory CSV FROM              the most GB that nvidia-smi saw after so many lines
"""

import collections
import csv
import io
import json
import lzma
import os
import shutil
import sys
import tarfile

PROMPT = "What is 12 * 7?"
SHAPES = {
    "full": dict(hidden_size=896, intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14,
                 num_key_value_heads=2, vocab_size=151936),
    "small": dict(hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=4,
                  num_key_value_heads=2, vocab_size=512),
}
TOKENIZER = "tests/fixtures/conformance/micro-qwen2"


def unpack(archive, folder):
    with tarfile.open(fileobj=lzma.open(archive)) as packed:
        packed.extractall(folder)


def model(folder, size):
    """Without torch the configuration alone, with which the binary draws random weights."""
    os.makedirs(folder, exist_ok=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(os.path.join(TOKENIZER, name), folder)
    settings = dict(SHAPES[size], max_position_embeddings=32768, tie_word_embeddings=True, rope_theta=1e6)
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(dict(settings, model_type="qwen2"), file)
    import torch
    from transformers import AutoModelForCausalLM, Qwen2Config
    torch.manual_seed(0)
    config = Qwen2Config(**settings, eos_token_id=1, bos_token_id=None, pad_token_id=0)
    drawn = AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    # Those of a fresh model have no biases and nearly equal logits, which hides errors.
    with torch.no_grad():
        for name, weight in drawn.named_parameters():
            if name.endswith("bias"):
                weight.normal_(0, 0.2)
            elif weight.dim() > 1:
                weight.mul_(2)
            else:
                weight.add_(0.1 * torch.randn_like(weight))
    drawn.save_pretrained(folder)
    with open(path) as file:
        saved = json.load(file)
    with open(path, "w") as file:
        json.dump(dict(saved, rope_theta=1e6), file)
    print("weights written")


def greedy(folder, device, tokens):
    import torch
    from tokenizers import Tokenizer
    from transformers import AutoModelForCausalLM
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval()
    ids = torch.tensor([Tokenizer.from_file(os.path.join(folder, "tokenizer.json")).encode(PROMPT).ids], device=device)
    total = 0.0
    with torch.no_grad():
        for _ in range(int(tokens)):
            logp = loaded(input_ids=ids).logits[0, -1].float().log_softmax(-1)
            total += logp.max().item()
            ids = torch.cat([ids, logp.argmax().view(1, 1)], 1)
    print(f"transformers float32: logp {total:.5f} of {tokens} greedy tokens")


def curves(*runs):
    """Fails where the second run differs from the first within three steps: rounding takes longer to change a token."""
    rewards = {}
    for run in runs:
        name, folder = run.split("=", 1)
        try:
            with open(os.path.join(folder, "metrics.jsonl")) as file:
                rewards[name] = [json.loads(line)["reward"] for line in file]
        except OSError as error:
            print(f"{name}: no run: {error}")
            continue
        values = rewards[name]
        part = max(1, len(values) // 4)
        print(f"{name}: reward {sum(values[:part]) / part:.3f} in the first quarter of {len(values)} steps, "
              f"{sum(values[-part:]) / part:.3f} in the last; {[round(x, 3) for x in values[:6]]}")
    if len(rewards) < 2:
        sys.exit(1)
    (first, one), (second, other) = list(rewards.items())[:2]
    same = next((at for at, (x, y) in enumerate(zip(one, other)) if abs(x - y) > 1e-9), min(len(one), len(other)))
    print(f"{second} has the rewards of {first} for {same} of {len(one)} steps")
    sys.exit(0 if same >= min(3, len(one)) else 1)


def same(first, second):
    """Fails where more than one in a hundred differs, and more than one."""
    def completions(folder):
        folder = os.path.join(folder, "samples")
        name = sorted(os.listdir(folder))[0]
        with open(os.path.join(folder, name)) as file:
            return [json.loads(line)["completion"] for line in file]

    one, other = completions(first), completions(second)
    equal = sum(x == y for x, y in zip(one, other))
    print(f"countdown, greedy: {equal} of {len(one)} completions are the CPU's")
    sys.exit(0 if len(one) == len(other) and equal >= len(one) - max(1, len(one) // 100) else 1)


def profile(path):
    with open(path, errors="replace") as file:
        text = file.read()
    begin = text.find('"ID"')
    if begin < 0:
        sys.exit("ncu measured no kernel")
    kernels = collections.defaultdict(lambda: [0, 0.0, 0.0])

    def number(row, name):
        return float(row[name].replace(",", ""))

    for row in csv.DictReader(io.StringIO(text[begin:])):
        try:
            time = number(row, "gpu__time_duration.sum")
            moved = number(row, "dram__bytes_read.sum") + number(row, "dram__bytes_write.sum")
        except (KeyError, TypeError, ValueError, AttributeError):
            continue
        entry = kernels[row["Kernel Name"][:44]]
        entry[0], entry[1], entry[2] = entry[0] + 1, entry[1] + time, entry[2] + moved
    total = sum(time for _, time, _ in kernels.values()) or 1.0
    print(f"{sum(count for count, _, _ in kernels.values())} launches, {total / 1e3:.0f} us on the device")
    for name, (count, time, moved) in sorted(kernels.items(), key=lambda item: -item[1][1])[:14]:
        print(f"{100 * time / total:5.1f} % {count:5d} x {time / count / 1e3:8.1f} us {moved / max(time, 1):7.0f} B/ns  {name}")


def memory(path, begin):
    most = 0.0
    try:
        with open(path) as file:
            for line in list(file)[int(begin):]:
                most = max(most, float(line.split(",")[0]))
    except (OSError, ValueError):
        pass
    if most:
        print(f", {most / 1024:.1f} GB used at most", end="")


if __name__ == "__main__":
    commands = {f.__name__: f for f in (unpack, model, greedy, curves, same, profile, memory)}
    commands[sys.argv[1]](*sys.argv[2:])
