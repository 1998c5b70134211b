"""Makes base.jsonl and tuned.jsonl: 200 word problems, 8 completions each, by two made-up models.

The tuned one is better on one try, never solves some problems that the base solves now and then, and nearly always
works the same way, in words that vary as much as the base's. Run it again and the same bytes come out.
"""

import json
import pathlib
import random

PROBLEMS, SAMPLES, SEED = 200, 8, 7
NAMES = "Ana Bo Cem Dana Eli Fay Gus Hana Ivo Jun Kai Lea Mio Nia Oto Pia Rui Sol Tao Uma".split()
THINGS = "pens cups eggs nuts figs nails cards shells coins beads".split()
FIRST = ["First,", "We count them:", "To begin,", "Let us see.", "All together:", "Step by step:"]
THEN = ["Then", "After that,", "So", "Next,", "Now", "Taking these away,"]


def worked(way, a, b, c):
    """The equations of one of three ways to a * b - c."""
    if way == 0:
        return [f"{a} * {b} = {a * b}", f"{a * b} - {c} = {a * b - c}"]
    if way == 1:
        return [f"{a - 1} * {b} = {(a - 1) * b}", f"{b} - {c} = {b - c}", f"{(a - 1) * b} + {b - c} = {a * b - c}"]
    half, rest = a // 2, a - a // 2
    return [f"{half} * {b} = {half * b}", f"{rest} * {b} - {c} = {rest * b - c}",
            f"{half * b} + {rest * b - c} = {a * b - c}"]


def completion(rng, model, rate, name, thing, a, b, c):
    """One completion: correct with the chance `rate`."""
    way = rng.choices([0, 1, 2], [0.4, 0.3, 0.3] if model == "base" else [0.93, 0.04, 0.03])[0]
    lines, answer = worked(way, a, b, c), a * b - c
    if rng.random() >= rate:
        answer = rng.choice([a * b + c, a + b - c, a * b, answer + 1, answer - 10, a * (b - c)])
        lines = [f"{a} * {b} = {a * b}", f"there are {answer} {thing}"]
    text = f"{rng.choice(FIRST)} {name} has {a} boxes of {b} {thing}. {lines[0]}. "
    text += " ".join(f"{rng.choice(THEN)} {line}." for line in lines[1:])
    # The base leaves its answer unmarked now and then, which a lenient rule reads and a strict one does not.
    is_marked = rng.random() < (0.85 if model == "base" else 0.97)
    return text + (f" \\boxed{{{answer}}}" if is_marked else f" That leaves {name} with {answer}")


def main():
    rng = random.Random(SEED)
    rows = {"base": [], "tuned": []}
    for number in range(PROBLEMS):
        a, b, c = rng.randint(3, 12), rng.randint(11, 40), rng.randint(2, 9)
        name, thing = NAMES[number % len(NAMES)], THINGS[number // len(NAMES)]
        prompt = f"{name} has {a} boxes with {b} {thing} each and gives away {c} {thing}. How many {thing} are left?"
        rate = rng.betavariate(0.8, 1.1)
        # Half of the hard problems are forgotten, the others are learned.
        is_lost = rate < 0.5 and rng.random() < 0.5
        rates = {"base": rate, "tuned": 0.0 if is_lost else rate + (1 - rate) * rng.uniform(0.2, 0.7)}
        for model, rate in rates.items():
            some = [completion(rng, model, rate, name, thing, a, b, c) for _ in range(SAMPLES)]
            rows[model].append({"id": f"{number:03}", "prompt": prompt, "gold": str(a * b - c), "completions": some,
                                "finish_reasons": ["stop"] * SAMPLES})
    for model, lines in rows.items():
        text = "".join(json.dumps(line) + "\n" for line in lines)
        pathlib.Path(__file__).with_name(f"{model}.jsonl").write_text(text)


main()
