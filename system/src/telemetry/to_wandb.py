"""Reports a run of `tealight train` or `sft` to Weights & Biases or Trackio, by their own Python packages.

  scripts/to-wandb RUN                   # the package decides where: WANDB_MODE=offline keeps the run on this machine
  scripts/to-wandb RUN --to trackio
  scripts/to-wandb RUN --follow          # until standard input ends: what --report-to wandb runs

RUN is the run's folder. Rows of metrics.jsonl become `train/NAME` and of evals.jsonl `eval/NAME`, at their steps; config.toml
becomes the settings, less the options whose values may hold keys. The project is $WANDB_PROJECT (or $TRACKIO_PROJECT), or
tealight. Offline runs of wandb lie in RUN/wandb; `wandb sync RUN/wandb/offline-run-*` uploads them."""

import argparse
import atexit
import importlib
import json
import math
import os
import re
import shutil
import stat
import sys
import tempfile
import threading
import time

# Settings that name programs and servers: their arguments may hold keys.
SECRET = ("verifier", "engine")
MOST_SETTINGS = 1 << 20
LONGEST_LINE = 1 << 20


def fail(why):
    print(why, file=sys.stderr)
    sys.exit(1)


def open_regular(path):
    """A file of the run's folder, which may be a stranger's: no link to elsewhere, no pipe that never ends."""
    no_follow = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    try:
        file = os.open(path, os.O_RDONLY | no_follow)
    except FileNotFoundError:
        raise
    except OSError as error:
        fail("%s: cannot be read, or is a link: %s" % (path, error.strerror))
    if not stat.S_ISREG(os.fstat(file).st_mode):
        fail("%s: not a regular file" % path)
    return os.fdopen(file, "rb")


def text_value(text):
    """A value of our own config.toml: one line, JSON but for TOML's other strings and numbers."""
    try:
        return json.loads(text)
    except ValueError:
        return text.strip("'\"")


def settings(run):
    """The settings of a run, by tomllib where Python has it."""
    path = os.path.join(run, "config.toml")
    try:
        with open_regular(path) as file:
            text = file.read(MOST_SETTINGS).decode("utf-8", "replace")
    except FileNotFoundError:
        return {}
    try:
        import tomllib

        found = tomllib.loads(text)
    except ImportError:
        pairs = re.findall(r"^([\w-]+) = (.+)$", text, re.MULTILINE)
        found = {key: text_value(value) for key, value in pairs}
    except ValueError as error:
        fail("%s: not TOML: %s" % (path, error))
    return {key: value for key, value in found.items() if key.replace("-", "_") not in SECRET}


class Rows:
    """The whole lines of a file that another process appends to."""

    def __init__(self, path, prefix):
        self.path, self.prefix, self.at, self.line = path, prefix, 0, 0

    def new(self):
        try:
            with open_regular(self.path) as file:
                file.seek(self.at)
                while True:
                    line = file.readline(LONGEST_LINE)
                    if not line.endswith(b"\n"):
                        if len(line) == LONGEST_LINE:
                            fail("%s:%d: a line of more than %d bytes" % (self.path, self.line + 1, LONGEST_LINE))
                        return
                    self.at += len(line)
                    self.line += 1
                    yield from self.numbers(line)
        except FileNotFoundError:
            return

    def numbers(self, line):
        try:
            row = json.loads(line)
            step = row["step"]
            if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < 1 << 53:
                raise TypeError("`step` is no whole number from 0 on")
            found = {}
            flatten(self.prefix, {key: value for key, value in row.items() if key != "step"}, found)
        except (ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            fail("%s:%d: not a row of metrics: %.200r" % (self.path, self.line, error))
        yield step, found


def flatten(name, value, found):
    """Numbers of a row; what is nested takes the name of its key."""
    if isinstance(value, dict):
        for key, inner in value.items():
            flatten("%s/%s" % (name, key), inner, found)
    elif isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        found[name] = value


class Wandb:
    def __init__(self, run, name, config):
        import wandb

        project = os.environ.get("WANDB_PROJECT", "tealight")
        self.run = wandb.init(project=project, name=name, config=config, dir=run, settings={"console": "off"})
        # Evaluations and steps come in any order: each names its own step.
        self.run.define_metric("step", hidden=True)
        self.run.define_metric("*", step_metric="step")

    def log(self, step, numbers):
        self.run.log({"step": step, **numbers})

    def finish(self):
        self.run.finish()


class Trackio:
    def __init__(self, run, name, config):
        import trackio

        self.package = trackio
        project = os.environ.get("TRACKIO_PROJECT", os.environ.get("WANDB_PROJECT", "tealight"))
        trackio.init(project=project, name=name, config=config, embed=False)

    def log(self, step, numbers):
        self.package.log(numbers, step=step)

    def finish(self):
        self.package.finish()


def leave_folder():
    """Works in an empty folder. The current one may be a stranger's: wandb reads a server's address from wandb/settings
    there, and runs git, whose settings may start programs."""
    for name, folder in list(os.environ.items()):
        if re.fullmatch("(WANDB|TRACKIO)_(.+_)?DIR", name) and folder:
            os.environ[name] = os.path.abspath(folder)
    empty = tempfile.mkdtemp(prefix="tealight-")
    atexit.register(shutil.rmtree, empty, ignore_errors=True)
    os.chdir(empty)


PACKAGES = {"wandb": Wandb, "trackio": Trackio}


def arguments():
    parser = argparse.ArgumentParser(prog="to-wandb", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", metavar="RUN")
    parser.add_argument("--to", choices=list(PACKAGES), default="wandb")
    parser.add_argument("--name", help="the run's name; default: its folder's and the time")
    parser.add_argument("--follow", action="store_true", help="go on until standard input ends")
    parser.add_argument("--check", action="store_true", help="only import the package, and report nothing")
    return parser.parse_args()


def main():
    options = arguments()
    if options.check:
        leave_folder()
        try:
            importlib.import_module(options.to)
        except ImportError as error:
            fail("%s is not installed: %s" % (options.to, error))
        return
    run = os.path.abspath(options.run)
    if not os.path.isdir(run):
        fail("%s: no such folder" % options.run)
    if os.path.islink(os.path.join(run, "wandb")):
        fail("%s/wandb: a link, through which nothing is written: remove it" % options.run)
    if os.path.lexists(os.path.join(run, "wandb", "settings")):
        fail("%s/wandb/settings: settings of the package, which may name a server: remove the file" % options.run)
    rows = [Rows(os.path.join(run, "metrics.jsonl"), "train"), Rows(os.path.join(run, "evals.jsonl"), "eval")]
    if not options.follow and not os.path.exists(rows[0].path):
        fail("%s: no such file: name the folder of a run of train or sft" % rows[0].path)
    # What packages print is not for whoever waits for our first line.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    leave_folder()
    name = options.name or "%s-%s" % (os.path.basename(run), time.strftime("%Y%m%d-%H%M%S"))
    try:
        package = PACKAGES[options.to](run, name, settings(run))
    except ImportError as error:
        fail("%s is not installed: %s" % (options.to, error))
    ended = threading.Event()
    if options.follow:
        print("ready", file=answers, flush=True)
        threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    else:
        ended.set()
    while True:
        # Asked before the files are read: what was written before the end is reported.
        is_last = ended.wait(0.5)
        for of in rows:
            for step, numbers in of.new():
                package.log(step, numbers)
        if is_last:
            break
    package.finish()
    if not options.follow:
        print("%d rows of %s reported to %s" % (sum(of.line for of in rows), options.run, options.to), file=answers)


main()
