# SPDX-License-Identifier: MIT
"""A fixture for pytest: runs a program and fails the test if the program leaks, stalls, allocates too much or makes new
sensitive calls.

    pytest -p sonde_pytest                      # or, in conftest.py: pytest_plugins = ["sonde_pytest"]

    def test_import(sonde_run):
        done = sonde_run(["./import", "data.csv"], leaked=0, stall=200, allocations=10_000, calls="known.json",
                         capture_output=True, text=True)
        assert done.stdout == "3 rows\\n"

The limits are those of sonde_gate.py; other arguments go to subprocess.run."""
import pytest

import sonde_gate


@pytest.fixture
def sonde_run():
    """Runs a command under `sonde record`, and returns the finished process if no limit is exceeded."""
    def run(command, **limits):
        __tracebackhide__ = True
        done = sonde_gate.run(command, **limits)
        if done.findings:
            pytest.fail("\n".join(f"sonde: {finding}" for finding in done.findings), pytrace=False)
        return done
    return run
