# Run by `--verifier python:FILE.py:FUNCTION`: reads a JSON object a line, calls FUNCTION, answers with one a line.
import importlib.util
import inspect
import json
import os
import sys


def load(path, name):
    """The function, and which of `prompt` and `id` the function takes."""
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
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return function, ()
    takes_all = any(one.kind == one.VAR_KEYWORD for one in parameters)
    named = [one.name for one in parameters if one.kind in (one.KEYWORD_ONLY, one.POSITIONAL_OR_KEYWORD)]
    return function, [key for key in ("prompt", "id") if takes_all or key in named]


KEYS = ("verdict", "reward", "class", "why", "features")


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
                return {"verdict": "unjudged", "why": "the reward %.80r is not a number between 0 and 1" % (reward,)}
            reply["reward"] = float(reward)
        return reply
    result = number(result)
    if result is None:
        return {"verdict": "unjudged", "why": "the function returned None"}
    if is_reward(result):
        if result in (0, 1):
            return {"verdict": "correct" if result else "wrong"}
        return {"reward": float(result)}
    why = "the function returned %.80r, which is not a reward between 0 and 1, None or a dictionary with `verdict` or `reward`"
    return {"verdict": "unjudged", "why": why % (result,)}


def describe(error):
    return ("%s: %s" % (type(error).__name__, error))[:500]


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
        function, extra = load(sys.argv[1], sys.argv[2])
    except BaseException as error:
        answer({"verdict": "unjudged", "why": describe(error)})
        return
    answer({"verdict": "correct"})
    for line in questions:
        question = json.loads(line)
        prompt = question["prompt"]
        question["prompt"] = prompt if isinstance(prompt, str) else json.dumps(prompt)
        try:
            reply = verdict(function(question["gold"], question["completion"], **{key: question[key] for key in extra}))
            json.dumps(reply)
        except BaseException as error:
            reply = {"verdict": "unjudged", "why": describe(error)}
        if os.getpid() != process:
            # A child that the function forked and that came back: the parent answers.
            os._exit(0)
        answer({"request": question["request"], **reply})


main()
