# Run by `--verifier python:FILE.py:FUNCTION`: reads a JSON object a line, calls FUNCTION, answers with one a line.
import importlib.util
import inspect
import json
import os
import re
import sys


def load(path, name, what):
    """Loads the function: a callable that takes a question and returns what the function says of it."""
    folder, file = os.path.split(os.path.abspath(path))
    sys.path.insert(0, folder)
    module_name = os.path.splitext(file)[0]
    specification = importlib.util.spec_from_file_location(module_name, path)
    if specification is None or specification.loader is None:
        raise ImportError("not a Python file: its name must end with .py")
    module = importlib.util.module_from_spec(specification)
    sys.modules[module_name] = module
    specification.loader.exec_module(module)
    function = getattr(module, name, None)
    if not callable(function):
        raise AttributeError("no function `%s`" % name)
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return {"classes": Class, "advantages": Group}.get(what, One)(function, ())
    takes_all = any(one.kind == one.VAR_KEYWORD for one in parameters)
    named = [one for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    names = [one.name for one in named]
    if what == "advantages":
        kind, known = Group, GROUP_NAMES
    elif what == "classes":
        kind, known = Class, ("gold", "prompt", "messages", "id")
        positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
        named = [one for one in named if one not in positional[:1]]
    elif "completions" in names:
        return Batch(function, named, takes_all)
    else:
        kind, known = One, ("prompt", "messages", "id")
        completion, gold = told_apart(named)
        if completion is not None:
            kind, known = Named, known + (completion, gold) + GOLD_NAMES + ("data_source", "extra_info")
        else:
            # The first two are given by position, whatever they are called.
            positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
            named = [one for one in named if one not in positional[:2]]
    needed = [one.name for one in named if one.default is one.empty and one.name not in known]
    if kind is Named:
        if len(needed) == 1 and gold is None and not any(one in names for one in GOLD_NAMES):
            # Beside a completion by name, the one other parameter is the gold answer.
            gold = needed.pop()
        if not needed:
            keys = [key for key in dict.fromkeys(known) if key and (takes_all or key in names)]
            return Named(function, keys, completion, gold)
        known = tuple(filter(None, known))
    if needed:
        raise TypeError("`%s` needs `%s`, and can be given %s" % (name, needed[0], ", ".join(known)))
    return kind(function, [key for key in known if takes_all or key in names])


class One:
    """A function of one gold answer and one completion."""

    def __init__(self, function, keys):
        self.function, self.keys = function, keys

    def __call__(self, question):
        return self.function(question["gold"], question["completion"], **{key: question[key] for key in self.keys})


GOLD_NAMES = ("gold", "answer", "solution", "ground_truth", "target", "label")
# What words of a parameter's name say that it is, the first row with one of them: a gold answer, or a completion.
ROLES = (
    ("gold", "gold golden ground truth groundtruth gt expected reference ref correct true ideal oracle"),
    ("completion", "predict predicted prediction pred model generated student candidate rollout solution_str"),
    ("gold", "target label"),
    ("completion", "completion response output generation gen text reply hypothesis hyp content message"),
)


def role(name):
    """What the name of a parameter says that it is; none where it does not say."""
    words = re.sub("([a-z])([A-Z])", r"\1_\2", name).lower().split("_") + [name]
    return next((role for role, known in ROLES if any(word in known.split() for word in words)), None)


def told_apart(named):
    """The names of the completion and of the gold answer, in any order, where names say which is which."""
    others = ("prompt", "messages", "id", "data_source", "extra_info")
    needed = [one.name for one in named if one.default is one.empty] or [one.name for one in named]
    first = [name for name in needed if name not in others]
    completions = [name for name in first if role(name) == "completion"]
    if "completion" in first:
        completions = ["completion"]
    golds = [name for name in first if role(name) == "gold"]
    if len(completions) > 1:
        raise TypeError("`%s` and `%s` may both be the completion: call them `completion` and `gold`" % tuple(completions[:2]))
    if not completions and len(golds) == 1 and golds[0] in first[1:2]:
        # The gold answer comes second: what is before it is the completion.
        completions = first[:1]
    if not completions:
        return None, None
    return completions[0], golds[0] if len(golds) == 1 else None


class Named:
    """A function of one completion whose parameters say by their names what they are, in any order: verl's are
    `data_source`, `solution_str`, `ground_truth` and `extra_info`."""

    def __init__(self, function, keys, completion, gold):
        self.function, self.completion, self.gold = function, completion, gold
        self.keys = keys if gold is None or gold in keys else keys + [gold]

    def __call__(self, question):
        columns = question["columns"] or {}
        values = dict(question, **{name: question["gold"] for name in GOLD_NAMES})
        values.update({name: columns.get(name) for name in ("data_source", "extra_info")})
        # As verl has it, which may be no text.
        judged = columns.get("reward_model")
        if isinstance(judged, dict) and "ground_truth" in judged:
            values["ground_truth"] = judged["ground_truth"]
        values.setdefault(self.gold, question["gold"])
        values[self.completion] = question["completion"]
        return self.function(**{key: values[key] for key in self.keys})


class Class:
    """A function of one completion that names its solution class."""

    def __init__(self, function, keys):
        self.function, self.keys = function, keys

    def __call__(self, question):
        found = number(self.function(question["completion"], **{key: question[key] for key in self.keys}))
        if found is None:
            return {"verdict": "correct"}
        if isinstance(found, (set, frozenset)):
            found = sorted(found, key=repr)
        if not isinstance(found, (str, bool, int, float, list, tuple)):
            raise TypeError("the function returned %.80r, which is no text, number or list" % (found,))
        return {"verdict": "correct", "class": found if isinstance(found, str) else repr(found)}


GROUP_NAMES = ("r", "correct", "logp", "logp_base", "length", "class_size", "rank") + ("n", "c", "beta", "step", "progress")


class Group:
    """A function of the samples of a group, by name, that returns one advantage a sample."""

    def __init__(self, function, keys):
        self.function, self.keys = function, keys

    def __call__(self, question):
        result = self.function(**question["values"])
        values = result.tolist() if hasattr(result, "tolist") else result
        if not isinstance(values, (list, tuple)):
            raise TypeError("the function returned %.80r, which is no list of numbers" % (result,))
        if len(values) != question["count"]:
            raise ValueError("the function returned %d numbers for %d samples" % (len(values), question["count"]))
        values = [number(value) for value in values]
        for place, value in enumerate(values):
            if not isinstance(value, (bool, int, float)) or not abs(value) < float("inf"):
                raise ValueError("the function returned %.80r for sample %d, which is no finite number" % (value, place))
        return {"verdict": "correct", "advantages": [float(value) for value in values]}


class Batch:
    """A function of lists, as TRL's trainers call it: `completions` and the columns of the dataset by name."""

    def __init__(self, function, named, takes_all):
        self.function, self.takes_all = function, takes_all
        self.names = self.keys = [one.name for one in named]
        self.needed = [one.name for one in named if one.default is one.empty]
        # Texts, or conversations where the function fails on texts; none before the first that was tried.
        self.form = None

    def call(self, question, form):
        if form == "texts":
            prompt, completion = question["prompt"], question["completion"]
        else:
            prompt = question["messages"]
            completion = [{"role": "assistant", "content": question["completion"]}]
        values = {name: question["gold"] for name in GOLD_NAMES}
        columns = question["columns"] or {}
        # As TRL: a column has the value of the row, and neither the prompt nor the completion comes as a column.
        values.update((name, value) for name, value in columns.items() if name not in ("prompt", "completion"))
        values.update({"prompts": prompt, "completions": completion, "id": question["id"], "gold": question["gold"]})
        lacking = [name for name in self.needed if name not in values]
        if lacking:
            raise TypeError("the function needs `%s`; the row has the columns %s" % (lacking[0], ", ".join(columns) or "of none"))
        result = self.function(**{key: [value] for key, value in values.items() if self.takes_all or key in self.names})
        if inspect.iscoroutine(result):
            import asyncio

            result = asyncio.run(result)
        result = list(result)
        if len(result) != 1:
            raise ValueError("the function returned %d rewards for one completion" % len(result))
        return result[0]

    def __call__(self, question):
        if self.form is not None:
            return self.call(question, self.form)
        form = "texts"
        try:
            result = self.call(question, form)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            # `completion[0]["content"]` of a text.
            form = "conversations"
            try:
                result = self.call(question, form)
            except Exception as other:
                if isinstance(other, type(error)) and str(other) == str(error):
                    raise error
                raise other from error
        if question["completion"]:
            self.form = form
        return result


KEYS = ("verdict", "reward", "class", "why", "advantages")


def number(value):
    """A number of any library as Python's own."""
    return value.item() if hasattr(value, "item") else value


def is_reward(value):
    return isinstance(value, (bool, int, float)) and 0 <= value <= 1


def verdict(result):
    """What a function returned, as an answer: a reward between 0 and 1, True, False, None, or a dictionary."""
    if isinstance(result, dict) and ("verdict" in result or "reward" in result):
        reply = {key: result[key] for key in KEYS if result.get(key) is not None}
        if "reward" in reply:
            reply["reward"] = reward = number(reply["reward"])
            if not is_reward(reward):
                return fault("the reward %.80r is not a number between 0 and 1" % (reward,))
            reply["reward"] = float(reward)
        return reply
    if isinstance(result, dict) and "score" in result:
        # verl's.
        result = result["score"]
    result = number(result)
    if result is None:
        return {"verdict": "unjudged", "why": "the function returned None"}
    if is_reward(result):
        if result in (0, 1):
            return {"verdict": "correct" if result else "wrong"}
        return {"reward": float(result)}
    why = "the function returned %.80r, which is not a reward between 0 and 1, None or a dictionary with `verdict` or `reward`"
    return fault(why % (result,))


def fault(why):
    """A fault of the function, which is reported, beside what it leaves unjudged."""
    return {"verdict": "unjudged", "why": why, "raised": True}


def describe(error):
    """An exception with the line of the user's file that it came from; the text of a SyntaxError has its line already."""
    path, line = os.path.abspath(sys.argv[1]), None
    trace = error.__traceback__
    while trace is not None:
        if os.path.abspath(trace.tb_frame.f_code.co_filename) == path:
            line = trace.tb_lineno
        trace = trace.tb_next
    place = "" if line is None else " (%s, line %d)" % (os.path.basename(path), line)
    return "%s: %s%s" % (type(error).__name__, str(error)[:400], place)


def main():
    # What the function prints goes to standard error and is never taken for an answer; nor does the function read ours.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    questions = os.fdopen(os.dup(0), "r", encoding="utf-8")
    os.dup2(2, 1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    process = os.getpid()

    def answer(reply):
        answers.write(json.dumps(reply) + "\n")
        answers.flush()

    try:
        function = load(*sys.argv[1:4])
    except BaseException as error:
        answer({"verdict": "unjudged", "why": describe(error)})
        return
    answer({"verdict": "correct", "reads": list(function.keys)})
    for line in questions:
        question = json.loads(line)
        try:
            reply = verdict(function(question))
            json.dumps(reply)
        except BaseException as error:
            reply = fault(describe(error))
        if os.getpid() != process:
            # A child that the function forked and that came back: the parent answers.
            os._exit(0)
        answer({"request": question["request"], **reply})


main()
