# SPDX-License-Identifier: MIT
"""sonde with so little processor time and memory that no file can take more."""
import pathlib
import resource

from helpers import SONDE, try_sonde

_SANITIZER = b"__asan_init" in pathlib.Path(SONDE).read_bytes()  # whose memory is the sanitizer's
SECONDS, BYTES = 120 if _SANITIZER else 20, 256 << 20


def _limits():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    if not _SANITIZER:
        resource.setrlimit(resource.RLIMIT_DATA, (BYTES, BYTES))


def bounded_sonde(*arguments, cwd=None):
    return try_sonde(*arguments, preexec_fn=_limits, cwd=cwd)
