#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde push` sends to an OpenTelemetry receiver, decoded by protoc with the published definitions: every field
is one of them, and the values add up to the report's. The definitions are in the folder OPENTELEMETRY_PROTO, or are
cloned from github.com/open-telemetry/opentelemetry-proto."""
import gzip
import os
import re
import subprocess
import sys

from helpers import needs, needs_agent, output_of, record, report, run_cases, skip, sonde
from shared.receiver import Receiver, environment

needs_agent()
needs("protoc", "git")

PROGRAM = "x = [str(i) * 3 for i in range(300000)]; print(len({a: [a] for a in x}))"
MESSAGE = "opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest"
SERVICE = "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto"


def _definitions(folder):
    given = os.environ.get("OPENTELEMETRY_PROTO")
    if given:
        return given
    done = subprocess.run(["git", "clone", "-q", "--depth", "1",
                           "https://github.com/open-telemetry/opentelemetry-proto", folder / "proto"], check=False)
    if done.returncode:
        skip("the definitions cannot be fetched; OPENTELEMETRY_PROTO names a folder with them")
    return folder / "proto"


def protoc_decodes_every_field(folder):
    definitions, server = _definitions(folder), Receiver()
    path, done = record([sys.executable, "-c", PROGRAM], "--malloc", "--sample=500", "--wall")
    assert done.returncode == 0, done
    sonde("push", "--to", server.url(), path, env=environment(OTEL_SERVICE_NAME="shop"))
    told, totals = report(path, "--all"), {}
    for _, _, body in server.requests:
        text = output_of("protoc", f"--decode={MESSAGE}", "-I", definitions, f"{definitions}/{SERVICE}",
                         input=gzip.decompress(body), text=False).decode()
        assert not re.search(r"^\s*\d+:", text, re.M), "a field that the definitions do not have"
        assert 'string_value: "shop"' in text and "mapping_table {" in text, text[:1000]
        strings = [""] + re.findall(r'^  string_table: "(.*)"$', text, re.M)[1:]
        for profile in re.split(r"^    profiles \{$", text.split("\ndictionary {")[0], flags=re.M)[1:]:
            kind = strings[int(re.search(r"type_strindex: (\d+)", profile)[1])]
            totals[kind] = totals.get(kind, 0) + sum(map(int, re.findall(r"^        values: (\d+)$", profile, re.M)))
    assert totals["samples"] == told["sample"]["samples"], totals
    for kind, key in ("alloc", "allocated"), ("inuse", "live"):
        assert totals[f"{kind}_objects"] == told["malloc"][key]["blocks"], totals
        assert totals[f"{kind}_space"] == told["malloc"][key]["bytes"], totals
    return f"{len(server.requests)} requests"


if __name__ == "__main__":
    run_cases(globals())
