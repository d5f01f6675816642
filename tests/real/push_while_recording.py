#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde record --push` and `sonde push --every`: what is new is sent at each interval. The profiles of all intervals
add up to the report, whatever the server does meanwhile."""
import gzip
import json
import os
import signal
import subprocess
import sys

from helpers import (SONDE, closed_port, compile_c, fresh, kill, needs_agent, record, report, run_cases, start_record,
                     try_sonde, until, write)
from shared.profiles import Otlp
from shared.receiver import Receiver, environment

needs_agent()

# It works until a file exists, and keeps blocks; its last words are the work of a second function.
WORK = """import os, sys, time
kept = []
def early():
  kept.append(bytearray(200000)); return [str(i) for i in range(20000)]
def late():
  kept.pop(); return [str(i) for i in range(20000)]
while not os.path.exists(sys.argv[1]) or len(kept) < 10: early(), time.sleep(0.008)
for i in range(10): late()
"""


def _all_profiles(server):
    for _, _, body in server.requests:
        request = Otlp(gzip.decompress(body))
        for profile in request.profiles:
            yield request, profile


def _totals(server):
    totals = {}
    for _, profile in _all_profiles(server):
        kind = profile["type"][0]
        totals[kind] = totals.get(kind, 0) + sum(value for _, value in profile["samples"])
    return totals


def _of(server, kind):
    return [profile for _, profile in _all_profiles(server) if profile["type"][0] == kind]


def _check(server, path):
    told, totals = report(path, "--all"), _totals(server)
    assert totals["samples"] == told["sample"]["samples"] > 0, (totals, told["sample"])
    sampled = told["sample"]["cpu_time"]["sampled_ns"]
    assert abs(totals["cpu"] - sampled) <= sampled / 1000, (totals, sampled)
    assert totals["alloc_space"] == told["malloc"]["allocated"]["bytes"], (totals, told["malloc"])
    last = sum(value for _, value in _of(server, "inuse_space")[-1]["samples"])
    assert last == told["malloc"]["live"]["bytes"], last
    ids = [profile["id"] for _, profile in _all_profiles(server)]
    assert len(set(ids)) == len(ids)
    for kind in "samples", "alloc_space":
        profiles = _of(server, kind)
        for before, after in zip(profiles, profiles[1:]):
            assert before["time"] + before["duration"] <= after["time"], "profiles overlap"


def _after(count, path, *first):
    """Replies: FIRST, then 200s; creates the file PATH after COUNT requests, with which the program ends."""
    seen, first = [], list(first)

    def reply(*_):
        seen.append(1)
        if len(seen) == count:
            open(path, "w", encoding="ascii").close()
        return first.pop(0) if first else (200, {}, b"")
    return reply


def _recorded(reply, stop, *options, program=WORK, **how):
    server = Receiver(reply)
    path, done = record([sys.executable, "-c", program, stop], "--sample=500", "--malloc=sample:16K", "--push",
                        server.url(), "--push-every", "1s", *options, text=True,
                        env=environment(OTEL_SERVICE_NAME="shop"), **how)
    return server, path, done


def intervals_add_up_to_the_report():
    stop = fresh(".stop")
    server, path, done = _recorded(_after(6, stop), stop, "--push-label", "team=core", "--push-label", "a=b")
    assert done.returncode == 0 and "1 recording pushed to http://127" in done.stderr and done.stdout == "", done
    assert len(_of(server, "samples")) > 2
    _check(server, path)
    for request, _ in _all_profiles(server):
        assert {name: request.resource[name] for name in ("service.name", "team", "a")} == {
            "service.name": "shop", "team": "core", "a": "b"}, request.resource
    names = [{line[0] for stack, _ in profile["samples"] for location in stack for line in location["lines"]}
             for profile in _of(server, "alloc_space")]
    assert ["late" in found for found in names] == [False] * (len(names) - 1) + [True], "another interval"
    assert sum("early" in found for found in names) > 1, "names are looked up for one interval alone"


def a_server_that_is_busy_for_a_while_gets_everything():
    stop = fresh(".stop")
    busy = [ConnectionResetError(), (503, {"Retry-After": "0"}, b"")]
    server, path, done = _recorded(_after(6, stop, *busy), stop)
    assert done.returncode == 0 and done.stderr.count("trying again until the recording ends") == 1, done
    first = [body for _, _, body in server.requests[:3]]
    assert len(set(first)) == 1, "a request changed between tries"
    server.requests[:] = server.requests[2:]  # the others were not taken
    _check(server, path)


def a_refused_interval_is_told_and_the_others_arrive():
    stop = fresh(".stop")
    server, path, done = _recorded(_after(6, stop, (400, {}, b"not you"), (400, {}, b"not you")), stop)
    assert done.returncode == 0 and done.stderr.count("status 400: not you") == 1, done
    told, totals = report(path), _totals(server)
    assert len(_of(server, "samples")) > 2 and totals["samples"] == told["sample"]["samples"], totals


def a_server_that_is_down_costs_the_program_nothing():
    path, done = record([sys.executable, "-c", "x = [str(i) for i in range(300000)]"], "--malloc=sample:16K", "--push",
                        f"http://127.0.0.1:{closed_port()}", text=True, env=environment())
    assert done.returncode == 0 and "gave up after" in done.stderr and report(path)["pid"], done


def each_program_of_a_process_is_pushed():
    stop = fresh(".stop")
    program = WORK + "os.execv(sys.executable, [sys.executable, '-c', 'y = [str(i) * 9 for i in range(300000)]'])"
    server, path, done = _recorded(_after(4, stop), stop, program=program)
    assert done.returncode == 0, done
    expected = sum(report(path, "--program", n)["malloc"]["allocated"]["bytes"] for n in (1, 2))
    assert _totals(server)["alloc_space"] == expected, (_totals(server), expected)


# Publishes a context of its second argument, a protobuf message in hexadecimal, as OpenTelemetry's OTEP 4719 says, and
# runs until the file of its first argument exists.
PUBLISH = r"""
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
struct header { char signature[8]; uint32_t version, payload_size; uint64_t published_at_ns; const uint8_t *payload; };
int main(int argc, char **argv) {
  static uint8_t payload[4096];
  size_t size = strlen(argv[2]) / 2;
  for (size_t i = 0; i < size; i++) { unsigned byte; sscanf(argv[2] + 2 * i, "%2x", &byte); payload[i] = byte; }
  int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
  if (argc != 3 || fd < 0 || ftruncate(fd, 4096)) return 1;
  struct header *h = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  close(fd);
  madvise(h, 4096, MADV_DONTFORK);
  h->version = 2; h->payload_size = size; h->published_at_ns = 1; h->payload = payload;
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
  memcpy(h->signature, "OTEL_CTX", 8);
  while (access(argv[1], F_OK)) {
    for (volatile int i = 0; i < 200000; i++) {}
    usleep(1000);
  }
  return 0;
}
"""


def _field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def _resource(**attributes):
    """A message opentelemetry.proto.resource.v1.Resource."""
    message = b""
    for key, value in attributes.items():
        one = _field(1, value.encode()) if isinstance(value, str) else b"\x18" + bytes([value])
        message += _field(1, _field(1, key.replace("_", ".").encode()) + _field(2, one))
    return message


def the_programs_context_gives_labels():
    """Less than the user's, more than sonde's own."""
    program = compile_c(write(PUBLISH, ".c"), "-O1")
    for requests, words, env, expected in (
            (2, [], {}, {"service.name": "inner", "team": "core", "shard": 7}),
            (1, ["--push-label", "team=mine"], {"OTEL_SERVICE_NAME": "outer"},
             {"service.name": "outer", "team": "mine", "shard": 7})):
        stop, message = fresh(".stop"), _resource(service_name="inner", team="core", shard=7)
        server = Receiver(_after(requests, stop))
        _, done = record([program, stop, message.hex()], "--sample=500", "--malloc=sample:16K", "--push", server.url(),
                         "--push-every", "2s", *words, text=True, env=environment(**env))
        assert done.returncode == 0, done
        for request, _ in _all_profiles(server):
            found = {name: request.resource.get(name) for name in expected}
            assert found == {name: str(value) for name, value in expected.items()}, request.resource


def a_context_that_is_damaged_is_left_out():
    program, stop = compile_c(write(PUBLISH, ".c"), "-O1"), fresh(".stop")
    server = Receiver(_after(1, stop))
    _, done = record([program, stop, "0aff01"], "--sample=500", "--malloc=sample:16K", "--push", server.url(), "--push-every", "2s",
                     text=True, env=environment())
    assert done.returncode == 0, done
    names = {request.resource["service.name"] for request, _ in _all_profiles(server)}
    assert names == {f"unknown_service:{os.path.basename(program)}"}, names


def a_complete_recording_is_pushed_at_once():
    path, _ = record([sys.executable, "-c", "x = [str(i) for i in range(300000)]"], "--malloc=sample:16K", "--sample=500")
    parts, whole = Receiver(), Receiver()
    for server, words in ((parts, ["--every", "3600s"]), (whole, [])):
        done = try_sonde("push", "--json", "--to", server.url(), *words, path, env=environment())
        assert done.returncode == 0 and json.loads(done.stdout)["recordings"] == 1, done
    assert _totals(parts) == _totals(whole)


def a_signal_ends_it_with_a_last_push():
    """The recording goes on."""
    stop = fresh(".stop")
    path, recorder = start_record([sys.executable, "-c", WORK, stop], "--malloc=sample:16K", "--sample=500",
                                  stderr=subprocess.DEVNULL)
    until(lambda: os.path.exists(path), "no recording")
    server = Receiver()
    until(lambda: report(path)["malloc"]["allocated"]["bytes"] > 0, "nothing is allocated")
    words = [SONDE, "push", "--every", "3600s", "--to", server.url(), path]
    pushing = subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env=environment())
    until(lambda: _blocks(pushing.pid, signal.SIGINT), "it does not wait")
    pushing.send_signal(signal.SIGINT)
    assert "1 recording pushed" in pushing.communicate()[0] and pushing.returncode == 0
    assert recorder.poll() is None and _totals(server)["alloc_space"] > 0
    open(stop, "w", encoding="ascii").close()
    status = recorder.wait()
    assert status == 0, status


def _blocks(pid, number):
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        mask, = [int(line.split()[1], 16) for line in status if line.startswith("SigBlk")]
    return mask >> (number - 1) & 1


def a_recorder_that_is_killed_ends_it():
    """Also while a server is busy: a sender that waits for it must not wait for ever."""
    for reply in (200, {}, b""), (503, {"Retry-After": "0"}, b""):
        stop, server = fresh(".stop"), Receiver(reply)
        _, recorder = start_record([sys.executable, "-c", WORK, stop], "--malloc=sample:16K", "--push", server.url(),
                                   "--push-every", "1s", stderr=subprocess.DEVNULL, env=environment())
        until(lambda: len(server.requests) > 1, "nothing is pushed")
        with open(f"/proc/{recorder.pid}/task/{recorder.pid}/children", encoding="ascii") as children:
            pids = [int(pid) for pid in children.read().split()]
        sender, = [pid for pid in pids if "--every" in _command(pid)]
        kill(recorder)
        until(lambda: _command(sender) == [], "the sender goes on")
        open(stop, "w", encoding="ascii").close()


def _command(pid):
    try:
        with open(f"/proc/{pid}/cmdline", encoding="utf-8") as words:
            return words.read().split("\0")[:-1]
    except OSError:
        return []


def wrong_use_is_told_before_the_command_runs():
    program = compile_c("int main(void) { return 0; }")
    for words, text in ((["--push-every", "5s"], "--push"), (["--push", "http://h", "--push-every", "0.1s"], "from 1s"),
                        (["--push", "http://h", "--push-label", "none"], "NAME=VALUE")):
        path, done = record([program], *words, text=True, env=environment())
        assert done.returncode == 125 and text in done.stderr and not os.path.exists(path), done
    for words, text in ((["--every", "soon"], "--every"), (["--every", "1s", "other"], "one recording")):
        done = try_sonde("push", "--to", "http://h", *words, "file", env=environment())
        assert done.returncode == 2 and text in done.stderr, done


if __name__ == "__main__":
    run_cases(globals())
