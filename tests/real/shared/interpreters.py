# SPDX-License-Identifier: MIT
"""The CPythons of this machine whose frames sonde reads."""
import functools
import glob
import os
import shutil
import subprocess

from helpers import skip


@functools.lru_cache(maxsize=None)
def _found():
    """(version, path) of each interpreter, the system's first. The path is the interpreter's own, not that of a script of
    a version manager, which takes longer to start."""
    found = []
    names = [f"python3.{minor}" for minor in range(8, 16)]
    paths = ["/usr/bin/python3", *map(shutil.which, names)]
    root = os.environ.get("PYENV_ROOT") or os.path.expanduser("~/.pyenv")
    paths += sorted(glob.glob(f"{root}/versions/3.*/bin/python3"))
    for path in filter(None, paths):
        code = "import sys; print(*sys.version_info[:3], sys.implementation.name, sys.executable)"
        run = subprocess.run([path, "-c", code], capture_output=True, text=True, check=False)
        words = run.stdout.split()
        if run.returncode == 0 and words[3] == "cpython" and (3, 8) <= (int(words[0]), int(words[1])) <= (3, 15):
            found.append((tuple(words[:3]), words[4]))
    return found


def interpreters():
    """Paths of interpreters by version."""
    found = {}
    for version, path in _found():
        found.setdefault(version, path)
    return found


def any_interpreter():
    return next((path for _, path in _found()), None) or skip("no CPython from 3.8 to 3.15")
