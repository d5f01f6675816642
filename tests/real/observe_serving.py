#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A server under load is recorded from outside five times: no request fails, and it is as it was before. The
soak test `attach` does this more often, and with other servers."""
from helpers import needs_plain_build, run_cases, skip
from shared.serving import record_again_and_again


def redis_serves_on():
    return record_again_and_again("redis-server", 5) or skip("redis-server is not installed")


needs_plain_build()
run_cases(globals())
