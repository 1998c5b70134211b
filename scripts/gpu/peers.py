#!/usr/bin/env python3
"""What `tealight bench` is compared with on the same card, with random weights of one architecture and nothing to download.

    peers.py CONFIG.json [--tasks limits,generate,graph,train] [--device cuda] [--prompts 32] [--group 8] ...

limits    a bfloat16 product of two random matrices, and a copy on the device
generate  transformers' generate: sampling at temperature 1, exactly --new-tokens tokens a sequence
graph     the same by a plain PyTorch loop over the model's weights, with a static cache and one CUDA graph for a token
train     one GRPO step: log-probabilities of the reference and of the policy, loss with a KL penalty, backward, AdamW;
          float32 weights, bfloat16 autocast

Prints a JSON object for each task. A task that fails says so, and the next one runs.
"""

import argparse
import json
import os
import statistics
import sys
import time
import traceback

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from transformers import AutoConfig, AutoModelForCausalLM  # noqa: E402


def options():
    parser = argparse.ArgumentParser(description="Measures peers of tealight bench")
    parser.add_argument("config")
    parser.add_argument("--tasks", default="limits,generate,graph,train")
    parser.add_argument("--device", default="cuda")
    for name, value in dict(prompts=32, group=8, prompt_len=100, new_tokens=400, micro_tokens=4096, reps=2).items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=value)
    parser.add_argument("--max-seconds", type=float, default=30, help="for the repetitions of a task")
    return parser.parse_args()


class Bench:
    def __init__(self, args):
        self.args, self.device = args, torch.device(args.device)
        self.is_cuda = self.device.type == "cuda"
        settings = json.load(open(args.config))
        self.config = AutoConfig.for_model(settings.pop("model_type"), **settings)
        self.rows = args.prompts * args.group

    def wait(self):
        if self.is_cuda:
            torch.cuda.synchronize()

    def seconds(self, work):
        """Of each repetition, as many as there is time for and at least one."""
        seconds, began = [], time.perf_counter()
        while len(seconds) < self.args.reps:
            if seconds and time.perf_counter() - began + seconds[-1] > self.args.max_seconds:
                break
            self.wait()
            start = time.perf_counter()
            work()
            self.wait()
            seconds.append(time.perf_counter() - start)
        return seconds

    def report(self, name, seconds, **rates):
        line = {"peer": name, "reps": len(seconds), "s_median": round(statistics.median(seconds), 4),
                "s_range": [round(min(seconds), 4), round(max(seconds), 4)]}
        if self.is_cuda:
            line["peak_gb"] = round(torch.cuda.max_memory_allocated() / 1e9, 2)
        for rate, amount in rates.items():
            line[rate] = round(amount / statistics.median(seconds), 1)
        print(json.dumps(line), flush=True)

    def model(self, dtype):
        torch.manual_seed(0)
        with self.device:
            return AutoModelForCausalLM.from_config(self.config, dtype=dtype, attn_implementation="sdpa")

    def tokens(self, rows, count):
        return torch.randint(5, min(self.config.vocab_size, 8192), (rows, count), device=self.device)

    def prompts(self):
        """One for every row, the same for the rows of a group."""
        torch.manual_seed(1)
        return self.tokens(self.args.prompts, self.args.prompt_len).repeat_interleave(self.args.group, 0)

    def limits(self):
        side, count = (8192, 2**30) if self.is_cuda else (512, 2**20)
        x, y = (torch.randn(side, side, device=self.device, dtype=torch.bfloat16) for _ in range(2))
        x @ y
        seconds = self.seconds(lambda: [x @ y for _ in range(10)])
        self.report("product", seconds, tflops=20 * side**3 / 1e12)
        source = torch.rand(count, device=self.device)
        to = torch.empty_like(source)
        to.copy_(source)
        seconds = self.seconds(lambda: [to.copy_(source) for _ in range(10)])
        self.report("copy", seconds, gb_s=80 * count / 1e9)

    def generate(self):
        model, prompts = self.model(torch.bfloat16).eval(), self.prompts()
        settings = dict(do_sample=True, temperature=1.0, top_k=0, top_p=1.0, pad_token_id=0, eos_token_id=None)

        def sample(count):
            return model.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), min_new_tokens=count,
                                  max_new_tokens=count, **settings)

        with torch.no_grad():
            assert sample(4).shape == (self.rows, self.args.prompt_len + 4)
            seconds = self.seconds(lambda: sample(self.args.new_tokens))
        self.report("transformers generate", seconds, new_tokens_per_s=self.rows * self.args.new_tokens)

    @torch.no_grad()
    def graph(self):
        loop = StaticLoop(self.model(torch.bfloat16).eval(), self.prompts(), self.args.new_tokens)
        difference, largest = loop.error()
        print(f"graph: logits differ from transformers' by {difference:.3g} of {largest:.3g}", flush=True)
        if self.is_cuda:
            loop.capture()
        loop.run()
        seconds = self.seconds(loop.run)
        name = "PyTorch, static cache" + (", CUDA graph" if self.is_cuda else "")
        self.report(name, seconds, new_tokens_per_s=self.rows * self.args.new_tokens)

    def train(self):
        args = self.args
        policy = self.model(torch.float32).train()
        reference = self.model(torch.bfloat16).eval().requires_grad_(False)
        optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-6, weight_decay=0.0, fused=self.is_cuda)
        ids = torch.cat([self.prompts(), self.tokens(self.rows, args.new_tokens)], 1)
        micro = max(1, args.micro_tokens // ids.shape[1])
        advantages = torch.tensor([1.0, -1.0], device=self.device).repeat(self.rows)[:self.rows, None]

        def logp(model, ids):
            with torch.autocast(self.device.type, dtype=torch.bfloat16):
                logits = model(input_ids=ids, logits_to_keep=args.new_tokens + 1, use_cache=False).logits
            chosen = ids[:, args.prompt_len:, None]
            return torch.log_softmax(logits[:, :-1].float(), -1).gather(-1, chosen).squeeze(-1)

        def step():
            for first in range(0, self.rows, micro):
                part = ids[first:first + micro]
                with torch.no_grad():
                    base = logp(reference, part)
                ours = logp(policy, part)
                ratio, apart = (ours - ours.detach()).exp(), base - ours
                penalty = apart.exp() - apart - 1
                loss = 0.04 * penalty - ratio * advantages[first:first + micro]
                (loss.sum() / (self.rows * args.new_tokens)).backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)

        step()
        self.report("PyTorch step", self.seconds(step), tokens_per_s=ids.numel())


class StaticLoop:
    """Sampling with memory that never moves, so that a token's work can be one CUDA graph."""

    def __init__(self, model, prompts, new_tokens):
        self.model, self.prompts, self.new_tokens = model, prompts, new_tokens
        config, device = model.config, prompts.device
        rows, self.length = prompts.shape
        slots = self.length + new_tokens
        self.dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        shape = (config.num_hidden_layers, rows, config.num_key_value_heads, slots, self.dim)
        self.keys, self.values = (torch.zeros(shape, device=device, dtype=torch.bfloat16) for _ in range(2))
        theta = (getattr(config, "rope_parameters", None) or {}).get("rope_theta") or getattr(config, "rope_theta", 1e4)
        frequencies = theta ** (-torch.arange(0, self.dim, 2, device=device).float() / self.dim)
        angles = torch.arange(slots, device=device).float()[:, None] * torch.cat([frequencies, frequencies])
        self.cos, self.sin = angles.cos().to(torch.bfloat16), angles.sin().to(torch.bfloat16)
        self.token = torch.zeros(rows, 1, dtype=torch.long, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.slots = torch.arange(slots, device=device)
        self.captured = None

    def norm(self, x, layer):
        return F.rms_norm(x, (x.shape[-1],), layer.weight, self.model.config.rms_norm_eps)

    def rotated(self, x, positions):
        first, second = x.chunk(2, -1)
        return x * self.cos[positions] + torch.cat([-second, first], -1) * self.sin[positions]

    def logits(self, ids, positions):
        """Of the last token of every row, whose earlier tokens are in the cache."""
        hidden = self.model.model.embed_tokens(ids)
        rows, count = ids.shape
        seen = (self.slots <= positions[-1:]).view(1, 1, 1, -1)
        for index, layer in enumerate(self.model.model.layers):
            attention, x = layer.self_attn, self.norm(hidden, layer.input_layernorm)
            projections = (attention.q_proj, attention.k_proj, attention.v_proj)
            q, k, v = (p(x).view(rows, count, -1, self.dim).transpose(1, 2) for p in projections)
            q, k = self.rotated(q, positions), self.rotated(k, positions)
            self.keys[index].index_copy_(2, positions, k)
            self.values[index].index_copy_(2, positions, v)
            if count > 1:
                x = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            else:
                x = F.scaled_dot_product_attention(q, self.keys[index], self.values[index], attn_mask=seen,
                                                   enable_gqa=True)
            hidden = hidden + attention.o_proj(x.transpose(1, 2).reshape(rows, count, -1))
            x, mlp = self.norm(hidden, layer.post_attention_layernorm), layer.mlp
            hidden = hidden + mlp.down_proj(F.silu(mlp.gate_proj(x)) * mlp.up_proj(x))
        return self.model.lm_head(self.norm(hidden[:, -1:], self.model.model.norm))[:, 0].float()

    @staticmethod
    def sample(logits):
        """The largest after Gumbel noise: a sample, without a wait for the device."""
        return (logits - torch.empty_like(logits).exponential_().log()).argmax(-1, keepdim=True)

    def prompt_logits(self, prompts):
        return self.logits(prompts, self.slots[:self.length])

    def error(self):
        """The largest difference from transformers' logits, and the largest logit."""
        if self.prompts.numel() > 32768:
            few = self.prompts[:8]
            keys, values = self.keys, self.values
            self.keys, self.values = keys[:, :8], values[:, :8]
            ours = self.prompt_logits(few)
            self.keys, self.values = keys, values
        else:
            few, ours = self.prompts, self.prompt_logits(self.prompts)
        theirs = self.model(input_ids=few).logits[:, -1].float()
        return (ours - theirs).abs().max().item(), theirs.abs().max().item()

    def step(self):
        self.token.copy_(self.sample(self.logits(self.token, self.position)))
        self.position.add_(1)

    def capture(self):
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            self.step()
            self.step()
        torch.cuda.current_stream().wait_stream(side)
        self.position.zero_()
        self.captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.captured):
            self.step()

    def run(self):
        self.token.copy_(self.sample(self.prompt_logits(self.prompts)))
        self.position.fill_(self.length)
        for _ in range(self.new_tokens - 1):
            self.captured.replay() if self.captured else self.step()


def main():
    args, failed = options(), False
    bench = Bench(args)
    print("torch", torch.__version__, torch.cuda.get_device_name() if bench.is_cuda else "on the CPU", flush=True)
    for task in args.tasks.split(","):
        if bench.is_cuda:
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        try:
            getattr(bench, task)()
        except Exception as error:  # the next task may still say something
            failed = True
            traceback.print_exc()
            print(json.dumps({"peer": task, "failed": str(error)[:300]}), flush=True)
    sys.exit(1 if failed else 0)


main()
