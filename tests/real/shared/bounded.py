# SPDX-License-Identifier: MIT
"""sonde with so little processor time and memory that no file can take more."""
import pathlib
import resource

from helpers import SONDE, try_sonde

_SANITIZER = b"__asan_init" in pathlib.Path(SONDE).read_bytes()  # whose memory is the sanitizer's


def bounded_sonde(*arguments, cwd=None, seconds=20, megabytes=256):
    def limit():
        limited = seconds * (6 if _SANITIZER else 1)
        resource.setrlimit(resource.RLIMIT_CPU, (limited, limited))
        if not _SANITIZER:
            resource.setrlimit(resource.RLIMIT_DATA, (megabytes << 20, megabytes << 20))
    return try_sonde(*arguments, preexec_fn=limit, cwd=cwd)
