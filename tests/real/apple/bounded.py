# SPDX-License-Identifier: MIT
"""sonde with so little processor time and memory that no file can take more."""
import os
import pathlib
import resource
import subprocess

SONDE = os.environ["SONDE"]
SANITIZED = b"__asan_init" in pathlib.Path(SONDE).read_bytes()  # whose memory is the sanitizer's
SECONDS, BYTES = 120 if SANITIZED else 20, 256 << 20


def _limits():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    if not SANITIZED:
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))


def sonde(*arguments, cwd=None):
    return subprocess.run([SONDE, *map(str, arguments)], capture_output=True, text=True, preexec_fn=_limits, cwd=cwd)
