"""`python -m tealight_rl COMMAND ...`, or `tealight-rl COMMAND ...`: the binary `tealight` that the wheel installs."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig


def binary() -> str:
    """The binary that was installed with this module: beside this interpreter, or where `--user` and pipx put scripts."""
    name = "tealight.exe" if os.name == "nt" else "tealight"
    scheme = "nt_user" if os.name == "nt" else "posix_user"
    folders = [sysconfig.get_path("scripts"), os.path.dirname(sys.executable), os.path.dirname(os.path.abspath(sys.argv[0]))]
    if scheme in sysconfig.get_scheme_names():
        folders.append(sysconfig.get_path("scripts", scheme))
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(path):
            return path
    sys.exit(f"tealight-rl: no binary `{name}` in {', '.join(folders)}: install the wheel again, pip install --force-reinstall tealight-rl")


def main() -> int:
    """Runs the binary with this process's arguments, and ends as it ends."""
    command = [binary(), *sys.argv[1:]]
    if os.name != "nt":
        # The same process: signals and the terminal are the binary's own.
        os.execv(command[0], command)
    return subprocess.call(command)


if __name__ == "__main__":
    sys.exit(main())
