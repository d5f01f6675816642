# SPDX-License-Identifier: MIT
"""A terminal for tests of what a person sees: a tmux server of its own, with one window that runs a shell.

    with Terminal(columns=80) as terminal:
        terminal.type("sonde report run.sonde\\n")
        terminal.wait_for("CPU time")
        print(terminal.screen())"""
import os
import re
import shutil
import subprocess
import tempfile

from helpers import SONDE, needs, until


class Terminal:
    """The shell's prompt is "ready> "; `sonde` is on PATH. `environment` is added to the test's."""

    def __init__(self, columns=80, lines=24, folder=None, **environment):
        needs("tmux")
        self.folder = tempfile.mkdtemp(prefix="sonde-tmux-")
        path = os.path.dirname(SONDE) + ":" + os.environ["PATH"]
        env = {**os.environ, "PATH": path, "PS1": "ready> ", "LC_ALL": "C.UTF-8", "HOME": self.folder, **environment}
        for name in ("TMUX", "NO_COLOR", "COLUMNS"):
            if name not in environment:
                env.pop(name, None)
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "-c",
                  str(folder or self.folder), "exec env PS1='ready> ' sh -i", env=env)

    def tmux(self, *words, **how):
        return subprocess.run(["tmux", "-S", os.path.join(self.folder, "socket"), *words], check=True, text=True,
                              capture_output=True, timeout=60, **how).stdout

    def __enter__(self):
        self.wait_for("ready>")
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")
        shutil.rmtree(self.folder, ignore_errors=True)

    def type(self, text):
        """Types TEXT; a newline is the Enter key."""
        for part in re.split(r"(\n)", text):
            if part == "\n":
                self.tmux("send-keys", "Enter")
            elif part:
                self.tmux("send-keys", "-l", part)

    def key(self, name):
        """Presses one key by tmux's name of it: Up, C-c, F2."""
        self.tmux("send-keys", name)

    def screen(self, styles=False, history=False):
        """The lines on the screen as text, with escape sequences if STYLES, from the beginning if HISTORY."""
        return self.tmux("capture-pane", "-p", *(["-e"] if styles else []), *(["-S", "-"] if history else []))

    def wait_for(self, pattern):
        """Waits until the screen shows a match of the regular expression, and returns the screen."""
        until(lambda: re.search(pattern, self.screen()), lambda: f"{pattern} in {self.screen()!r}", seconds=60)
        return self.screen()
