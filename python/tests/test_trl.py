"""TRL's GRPOTrainer trains three steps with our reward, on a tiny model with random weights."""

import os

import pytest

pytest.importorskip("torch")
trl = pytest.importorskip("trl")
datasets = pytest.importorskip("datasets")
transformers = pytest.importorskip("transformers")
tokenizers = pytest.importorskip("tokenizers")

from tealight_rl import rewards  # noqa: E402


@pytest.fixture(scope="module")
def tokenizer():
    """A token for each character."""
    characters = list("0123456789+-*/=. ?abcdefghijklmnopqrstuvwxyz\n")
    vocabulary = {token: number for number, token in enumerate(["<pad>", "<eos>", *characters])}
    made = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocabulary, unk_token="<pad>"))
    made.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")
    made.decoder = tokenizers.decoders.Fuse()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


@pytest.mark.parametrize("form", ["plain", "conversational"])
def test_grpo_trains_three_steps(form, tokenizer, tmp_path):
    os.environ.setdefault("WANDB_MODE", "disabled")
    transformers.set_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=len(tokenizer), hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, max_position_embeddings=128, pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id, bos_token_id=None,
    )
    model = transformers.LlamaForCausalLM(config)
    prompts = [f"{a}+{b}=" for a in range(3) for b in range(4)]
    if form == "conversational":
        tokenizer.chat_template = "{% for message in messages %}{{ message['content'] }}\n{% endfor %}"
        rows = {"prompt": [[{"role": "user", "content": prompt}] for prompt in prompts]}
    else:
        rows = {"prompt": prompts}
    # Any number of one digit is right for someone: random completions earn something.
    rows["answer"] = [str(index % 10) for index in range(len(prompts))]
    seen = []

    class Spy(rewards.Reward):
        def __call__(self, *arguments, **columns):
            found = super().__call__(*arguments, **columns)
            seen.append((columns, found))
            return found

    settings = trl.GRPOConfig(
        output_dir=str(tmp_path), max_steps=3, per_device_train_batch_size=4, num_generations=4, max_completion_length=6,
        learning_rate=1e-3, report_to=[], use_cpu=True, bf16=False, logging_steps=1, save_strategy="no",
        gradient_checkpointing=False,
    )
    trainer = trl.GRPOTrainer(
        model=model, reward_funcs=Spy("math"), args=settings, train_dataset=datasets.Dataset.from_dict(rows),
        processing_class=tokenizer,
    )
    before = model.lm_head.weight.detach().clone()
    trainer.train()
    assert trainer.state.global_step == 3 and len(seen) >= 3
    rewards_found = [reward for _, found in seen for reward in found]
    assert all(reward in (0.0, 1.0) for reward in rewards_found)
    logs = [row for row in trainer.state.log_history if "rewards/tealight_math/mean" in row]
    assert len(logs) == 3
    first_columns, first = seen[0]
    assert len(first_columns["answer"]) == len(first) == len(first_columns["completions"])
    assert abs(logs[0]["rewards/tealight_math/mean"] - sum(first) / len(first)) < 1e-6
    # Something was learned from, or every group earned the same.
    if any(row.get("frac_reward_zero_std", 0.0) < 1.0 for row in logs):
        assert not before.equal(model.lm_head.weight)
