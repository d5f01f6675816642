#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What `sonde push` sends, decoded by protoc with the published definitions: every field is one of them, and the values
add up to the report's. The definitions are in the folders OPENTELEMETRY_PROTO and PPROF, or are cloned from
github.com/open-telemetry/opentelemetry-proto and github.com/google/pprof."""
import gzip
import os
import re
import subprocess
import sys

from helpers import needs, needs_agent, output_of, record, report, run_cases, skip, sonde
from shared.profiles import read_series
from shared.receiver import Receiver, environment

needs_agent()
needs("protoc", "git")

PROGRAM = "x = [str(i) * 3 for i in range(300000)]; print(len({a: [a] for a in x}))"
MESSAGE = "opentelemetry.proto.collector.profiles.v1development.ExportProfilesServiceRequest"
TAKEN = b"\x80" + len(b"grpc-status: 0\r\n").to_bytes(4, "big") + b"grpc-status: 0\r\n"  # gRPC-Web's trailers
SERVICE = "opentelemetry/proto/collector/profiles/v1development/profiles_service.proto"


def _definitions(folder, variable, repository):
    given = os.environ.get(variable)
    if given:
        return given
    done = subprocess.run(["git", "clone", "-q", "--depth", "1", f"https://github.com/{repository}", folder / "proto"],
                          check=False)
    if done.returncode:
        skip(f"the definitions cannot be fetched; {variable} names a folder with them")
    return folder / "proto"


def _decoded(body, message, folder, file):
    text = output_of("protoc", f"--decode={message}", "-I", folder, f"{folder}/{file}", input=gzip.decompress(body),
                     text=False).decode()
    assert not re.search(r"^\s*\d+:", text, re.M), "a field that the definitions do not have"
    return text


def _recording():
    path, done = record([sys.executable, "-c", PROGRAM], "--malloc", "--sample=500", "--wall")
    assert done.returncode == 0, done
    return path


def _check(totals, told):
    assert totals["samples"] == told["sample"]["samples"], totals
    for kind, key in ("alloc", "allocated"), ("inuse", "live"):
        assert totals[f"{kind}_objects"] == told["malloc"][key]["blocks"], totals
        assert totals[f"{kind}_space"] == told["malloc"][key]["bytes"], totals


def protoc_decodes_every_field(folder):
    definitions = _definitions(folder, "OPENTELEMETRY_PROTO", "open-telemetry/opentelemetry-proto")
    path, server = _recording(), Receiver()
    sonde("push", "--to", server.url(), path, env=environment(OTEL_SERVICE_NAME="shop"))
    told, totals = report(path, "--all"), {}
    for _, _, body in server.requests:
        text = _decoded(body, MESSAGE, definitions, SERVICE)
        assert 'string_value: "shop"' in text and "mapping_table {" in text, text[:1000]
        strings = [""] + re.findall(r'^  string_table: "(.*)"$', text, re.M)[1:]
        for profile in re.split(r"^    profiles \{$", text.split("\ndictionary {")[0], flags=re.M)[1:]:
            kind = strings[int(re.search(r"type_strindex: (\d+)", profile)[1])]
            totals[kind] = totals.get(kind, 0) + sum(map(int, re.findall(r"^        values: (\d+)$", profile, re.M)))
    _check(totals, told)
    return f"{len(server.requests)} requests"


def protoc_decodes_every_field_of_pprof(folder):
    """The profiles for Pyroscope and those for Parca."""
    definitions, path = _definitions(folder, "PPROF", "google/pprof"), _recording()
    for protocol in "pyroscope", "parca":
        server, totals = Receiver((200, {}, TAKEN if protocol == "parca" else b"")), {}
        sonde("push", "--to", server.url(f"{protocol}+"), path, env=environment())
        for _, _, body in server.requests:
            _, profile = read_series(body[5:] if protocol == "parca" else body, protocol == "parca")
            text = _decoded(profile, "perftools.profiles.Profile", definitions, "proto/profile.proto")
            strings = re.findall(r'^string_table: "(.*)"$', text, re.M)
            kinds = [strings[int(n)] for n in re.findall(r"^sample_type {\n  type: (\d+)", text, re.M)]
            for sample in re.findall(r"^sample {\n((?:  .*\n)*)}", text, re.M):
                values = [int(value) for value in re.findall(r"^  value: (\d+)$", sample, re.M)]
                assert len(values) == len(kinds), (kinds, sample)
                for kind, value in zip(kinds, values):
                    totals[kind] = totals.get(kind, 0) + value
        _check(totals, report(path, "--all"))


if __name__ == "__main__":
    run_cases(globals())
