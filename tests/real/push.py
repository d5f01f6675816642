#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""`sonde push`: receivers written from the published definitions of OpenTelemetry, Pyroscope and Parca get what the
report says; servers that are down, busy, strange or not to be trusted; credentials stay secret."""
import gzip
import json
import os
import ssl
import subprocess
import sys
import threading
import time

from helpers import (SONDE, closed_port, compile_c, fresh, needs, needs_agent, output_of, record, report, run_cases,
                     skip_part, try_sonde, until, write)
from shared.profiles import Otlp, read_pprof, read_series
from shared.receiver import Receiver, environment
from shared.recordings import numbers, recording, string, table

needs_agent()

PYTHON = "def outer():\n  x = [str(i) * 3 for i in range(300000)]\n  return len({a: [a] for a in x})\nprint(outer())"
PATHS = {"": "/v1development/profiles", "pyroscope+": "/push.v1.PusherService/Push",
         "parca+": "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw"}
TRAILERS = b"grpc-status: 0\r\ngrpc-message: \r\n"
WEB_OK = bytes(5) + b"\x80" + len(TRAILERS).to_bytes(4, "big") + TRAILERS
_made = {}


def _recording():
    if not _made:
        _made["path"], done = record([sys.executable, "-c", PYTHON], "--malloc=sample:16K", "--sample=500", "--wall")
        assert done.returncode == 0, done
        _made["told"] = report(_made["path"], "--all")
    return _made["path"]


def _push(url, *words, env=None, path=None):
    return try_sonde("push", "--to", url, *words, path or _recording(), env=env or environment())


def _pushed(url, *words, **how):
    done = _push(url, "--json", *words, **how)
    assert done.returncode == 0 and not done.stderr, done
    return json.loads(done.stdout)


def _one_line(done, *texts):
    lines = done.stderr.splitlines()
    assert done.returncode == 2 and done.stdout == "" and len(lines) == 1, done
    for text in texts:
        assert text in lines[0], (text, lines)


# ---- what is received ------------------------------------------------------------------------------

def _otlp_requests(server):
    for path, headers, body in server.requests:
        assert path == PATHS[""] and headers["Content-Type"] == "application/x-protobuf", (path, headers)
        yield Otlp(gzip.decompress(body) if headers.get("Content-Encoding") == "gzip" else body)


def otlp_profiles_are_what_the_report_says():
    server = Receiver()
    told = _pushed(server.url(), "--label", "team=core", "--label", "shop.region=eu", env=environment(
        OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=lab%2C1, service.name=other, team=no",
        OTEL_SERVICE_NAME="shop"))
    requests, report_of = list(_otlp_requests(server)), _made["told"]
    total = lambda kind: sum(request.total(kind) for request in requests)  # noqa: E731
    # a busy machine may make threads wait
    assert told["protocol"] == "otlp" and told["recordings"] == 1 and told["requests"] == len(requests) == 2 + bool(total("off_cpu")), told
    assert told["sent_bytes"] == sum(len(body) for _, _, body in server.requests), told
    assert total("samples") == report_of["sample"]["samples"] > 10
    assert abs(total("cpu") - report_of["sample"]["cpu_time"]["sampled_ns"]) <= 1000, total("cpu")
    for kind, key in ("alloc", "allocated"), ("inuse", "live"):
        # sampled blocks stand for fractions of blocks, which are rounded for each stack
        assert abs(total(f"{kind}_objects") - report_of["malloc"][key]["blocks"]) <= told["stacks"], kind
        assert total(f"{kind}_space") == report_of["malloc"][key]["bytes"], kind
    for request in requests:
        assert request.scope == "sonde" and request.resource["process.pid"] == report_of["pid"], request.resource
        assert {name: request.resource[name] for name in request.resource if not name.startswith("process.")} == {
            "deployment.environment.name": "lab,1", "service.name": "shop", "shop.region": "eu", "team": "core"}
        assert request.resource["process.executable.name"].startswith("python3"), request.resource


def otlp_frames_have_names_files_and_build_ids():
    server = Receiver()
    _pushed(server.url())
    locations = [location for request in _otlp_requests(server) for profile in request.profiles
                 for stack, _ in profile["samples"] for location in stack]
    functions = {line[0]: location for location in locations for line in location["lines"]}
    assert functions["outer"]["profile.frame.type"] == "cpython" and functions["outer"]["lines"][0][1] == "<string>"
    native = [location for location in locations if location["profile.frame.type"] == "native"]
    assert any(location["mapping"]["file"].endswith("libc.so.6") for location in native)
    named = [location for location in native if location["mapping"].get("process.executable.build_id.gnu")]
    assert len(named) > len(native) / 2
    for location in named:
        assert location["mapping"]["start"] <= location["address"] < location["mapping"]["limit"], location


def two_writers_of_an_image_and_samples_without_frames_keep_each_entry_once(folder):
    """The program and the recorder each describe the images of their stacks. A sample that the recorder took has no
    frames if the thread could not be read (0), and its stack may be incomplete when the recording is read (3)."""
    frames, samples = b"", b""
    for number in (1, 2):
        frames += table(2, numbers(number, 0, 0x1000, 0x9000, 0) + string(b"id") + string(b"/bin/x"))
        frames += table(5, numbers(number, 0x2000 * number, number, 1)) + table(6, numbers(number, 0, number))
    frames += table(6, numbers(3, 0, 99))
    for stack in (1, 2, 0, 3):
        samples += bytes([7]) + numbers(0, stack)  # an event of kind 7
    path = recording(folder / "two.sonde", samples, table(1, numbers(1) + string(b"/bin/x")) + frames)
    for protocol in PATHS:
        server = Receiver(*[(200, {}, WEB_OK if protocol.startswith("parca") else b"")])
        _pushed(server.url(protocol), path=path)
        if protocol:
            body = server.requests[0][2]
            _, profile = read_series(body[5:] if protocol.startswith("parca") else body, protocol.startswith("parca"))
            assert sum(values["samples"] for _, values in read_pprof(profile)[1]) == 4
            continue
        request, = _otlp_requests(server)
        assert [len(request.tables[name]) for name in ("mappings", "locations", "stacks")] == [2, 3, 3], request.tables
        found = sorted((len(stack), value) for stack, value in request.profiles[0]["samples"])
        assert found == [(0, 1), (0, 1), (1, 1), (1, 1)], found


def equal_profiles_have_equal_identifiers():
    server = Receiver()
    for _ in range(2):
        _pushed(server.url())
    ids = [profile["id"] for request in _otlp_requests(server) for profile in request.profiles]
    assert ids[:len(ids) // 2] == ids[len(ids) // 2:] and len(set(ids)) == len(ids) // 2, ids


def pyroscope_and_parca_get_pprof_with_labels():
    for protocol, reply in (("pyroscope+", b""), ("parca+", WEB_OK)):
        server, totals, names = Receiver((200, {}, reply)), {}, set()
        _pushed(server.url(protocol), "--label", "shop.region=eu", env=environment(OTEL_SERVICE_NAME="shop"))
        for path, headers, body in server.requests:
            assert path == PATHS[protocol], path
            if protocol == "parca+":
                assert headers["Content-Type"] == "application/grpc-web+proto" and headers["X-Grpc-Web"] == "1"
                assert body[0] == 0 and int.from_bytes(body[1:5], "big") == len(body) - 5
                body = body[5:]
            else:
                assert headers["Content-Type"] == "application/proto", headers
                assert headers["Connect-Protocol-Version"] == "1", headers
            labels, profile = read_series(body, protocol == "parca+")
            assert labels == sorted(labels) and ("service_name", "shop") in labels, labels
            assert dict(labels)["shop_region"] == "eu", labels
            names.add(dict(labels)["__name__"])
            for _, values in read_pprof(profile)[1]:
                for kind, value in values.items():
                    totals[kind] = totals.get(kind, 0) + value
        told = _made["told"]
        assert names >= {"process_cpu", "memory"}, names
        assert totals["samples"] == told["sample"]["samples"], totals
        assert totals["alloc_space"] == told["malloc"]["allocated"]["bytes"] > 0, totals
        assert totals["inuse_space"] == told["malloc"]["live"]["bytes"], totals


def a_label_of_the_user_names_the_service():
    """In the form that Pyroscope and Parca have, too; the last one counts."""
    for words, expected in ((["--label", "service_name=mine"], "mine"), (["--label", "service.name=mine"], "mine"),
                            (["--label", "service_name=a", "--label", "service.name=b"], "b"), ([], "shop")):
        server = Receiver()
        _pushed(server.url("pyroscope+"), *words, env=environment(OTEL_SERVICE_NAME="shop"))
        labels, _ = read_series(server.requests[0][2], False)
        assert [value for name, value in labels if name == "service_name"] == [expected], (words, labels)


def waits_are_a_profile_of_their_own():
    program = compile_c("#include <unistd.h>\nvoid pause_here(void) { usleep(300000); }\n"
                        "int main(void) { pause_here(); return 0; }", "-O0", "-g")
    path, _ = record([program], "--wall")
    server = Receiver()
    _pushed(server.url(), path=path)
    waited = {line[0]: value for request in _otlp_requests(server) for profile in request.profiles
              if profile["type"] == ("off_cpu", "nanoseconds") for stack, value in profile["samples"]
              for location in stack for line in location["lines"]}
    assert waited["pause_here"] > 200e6, waited


def a_profile_of_many_stacks_is_divided():
    body = " ".join(f"top{x}({x});" for x in range(17))
    program = ["#include <stdlib.h>"]
    for x in range(17):
        program.append(f"__attribute__((noinline)) void leaf{x}(int i) {{ void *volatile block = malloc(16 + (i * 7 + {x}) % 999); free(block); }}")
    for outer, inner in (("mid", "leaf"), ("top", "mid")):
        for x in range(17):
            calls = " ".join(f"{inner}{y}(i + {y});" for y in range(17))
            program.append(f'__attribute__((noinline)) void {outer}{x}(int i) {{ {calls} __asm__(""); }}')
    program.append(f"int main(void) {{ {body} return 0; }}")
    binary = compile_c(write("\n".join(program), ".c"), "-O1", "-fno-optimize-sibling-calls")
    path, _ = record([binary], "--malloc")
    server, told = Receiver(), report(path)["malloc"]["allocated"]
    done = _pushed(server.url(), path=path)
    assert done["requests"] == len(server.requests) == 2 and done["stacks"] >= 17 ** 3, done
    requests = list(_otlp_requests(server))
    assert sum(request.total("alloc_objects") for request in requests) == told["blocks"]
    assert sum(request.total("alloc_space") for request in requests) == told["bytes"]
    ids = [profile["id"] for request in requests for profile in request.profiles]
    assert len(set(ids)) == len(ids)


# ---- servers ---------------------------------------------------------------------------------------

def a_busy_server_is_tried_again():
    for protocol, taken in (("", b""), ("pyroscope+", b""), ("parca+", WEB_OK)):
        busy = [ConnectionResetError(), (503, {"Retry-After": "0"}, b"busy"), (429, {"Retry-After": "0"}, b"")]
        busy = busy[:1] if protocol else busy  # each pause is twice the one before
        server = Receiver(*busy, (200, {}, taken))
        done = _push(server.url(protocol), "--json")
        told = json.loads(done.stdout)
        assert done.returncode == 0 and told["retries"] == len(busy) and len(server.requests) == told["requests"] + len(busy), done
        assert "Empty reply from server; trying again for up to 60 s" in done.stderr and done.stderr.count("\n") == 1, done
        first = [body for _, _, body in server.requests[:len(busy) + 1]]
        assert len(set(first)) == 1, "a request changed between tries"


def a_busy_grpc_service_is_tried_again():
    text = b"grpc-status:14\r\n"
    server = Receiver((200, {}, b"\x80" + len(text).to_bytes(4, "big") + text), (200, {"grpc-status": "8"}, b""),
                    (200, {}, WEB_OK))
    done = _push(server.url("parca+"), "--json")
    assert done.returncode == 0 and json.loads(done.stdout)["retries"] == 2 and "gRPC status 14" in done.stderr, done


def a_server_that_is_down_costs_limited_time():
    began = time.monotonic()
    done = _push(f"http://127.0.0.1:{closed_port()}", "--retry", "1.5s")
    assert done.returncode == 2 and "gave up after" in done.stderr and done.stdout == "", done
    assert len(done.stderr.splitlines()) == 2 and time.monotonic() - began < 30, done
    server = Receiver((503, {"Retry-After": "3600"}, b""))
    _one_line(_push(server.url()), "status 503", "gave up after 1 try")
    _one_line(_push(f"http://127.0.0.1:{closed_port()}", "--retry", "0"), "gave up after 1 try")


def a_reply_that_does_not_end_costs_limited_time():
    """Nor does one that does not begin. No test of a time: without a limit the push would not end."""
    def never(path, body):
        threading.Event().wait(600)
        return 200, {}, b""

    def dripping(out):
        begun.append(out)
        try:
            while not time.sleep(0.01):
                out.write(b"x")
        except OSError:
            gone.append(out)

    begun, gone = [], []
    for reply in never, (200, {"Content-Length": 1 << 30}, dripping):
        _one_line(_push(Receiver(reply).url(), "--retry", "0", "--timeout", "500ms"), "imed out", "gave up after 1 try")
    until(lambda: len(gone) == len(begun), "no client waits for a reply any longer")
    cut = Receiver((200, {"Content-Length": 4096}, lambda out: out.write(b"half")))
    _one_line(_push(cut.url(), "--retry", "0"), "gave up after 1 try")
    assert try_sonde("push", "--to", "http://host", "--timeout", "0", _recording()).returncode == 2


def a_refusal_is_final():
    for protocol, reply, text in (
            ("", (400, {}, b"what is this\nmore"), "status 400: what is this"),
            ("", (401, {}, b""), "--header-file"),
            ("pyroscope+", (404, {}, b""), "nothing takes profiles at this path"),
            ("", (302, {"Location": "http://127.0.0.1:1/"}, b""), "redirects are not followed"),
            ("", (500, {}, b"\x00\x1b[31mred"), "status 500"),
            ("", (200, {}, b"<html>"), "not one of an OTLP receiver"),
            ("parca+", (200, {}, b"<html>"), "not one of a gRPC server"),
            ("parca+", (200, {}, b"\x80\xff\xff\xff\xffgrpc-status:0"), "not one of a gRPC server"),
            ("parca+", (200, {"grpc-status": "3"}, b""), "gRPC status 3"),
            ("", (200, {}, b"\x0a\x0d\x08\x02\x12\x09too large"), "2 profiles were rejected: too large")):
        server = Receiver(reply)
        done = _push(server.url(protocol))
        _one_line(done, text)
        assert len(server.requests) == 1 and "\x1b" not in done.stderr, done


def _pushing_peak_kb(reply):
    server = Receiver((200, {}, reply))
    words = [SONDE, "push", "--retry", "0", "--to", server.url("pyroscope+"), _recording()]
    pushing = subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment())
    _, status, used = os.wait4(pushing.pid, 0)
    pushing.returncode = os.waitstatus_to_exitcode(status)
    assert pushing.returncode == 0, pushing.returncode
    return used.ru_maxrss


def an_endless_reply_needs_no_memory():
    """Not a limit of the process: what does not fit is skipped like what is too long."""
    short, endless = _pushing_peak_kb(b""), _pushing_peak_kb(bytes(200_000_000))
    assert endless < short + 50_000, (short, endless)


# ---- at the end of a recording ---------------------------------------------------------------------

def a_recording_is_pushed_at_its_end():
    server = Receiver()
    path, done = record([sys.executable, "-c", PYTHON], "--malloc=sample:16K", "--push", server.url(), text=True,
                        env=environment(OTEL_SERVICE_NAME="shop"))
    request, = _otlp_requests(server)
    assert done.returncode == 0 and "1 recording pushed to http://127" in done.stderr, done
    assert request.total("alloc_space") == report(path)["malloc"]["allocated"]["bytes"] > 0
    assert request.resource["service.name"] == "shop", request.resource


def a_push_that_fails_leaves_the_commands_status():
    server = Receiver((400, {}, b"no"))
    path, done = record(["sh", "-c", "exit 7"], "--malloc", "--push", server.url(), text=True, env=environment())
    assert done.returncode == 7 and "status 400: no" in done.stderr and report(path)["pid"], done
    for url in ("nonsense", "http://user:word@host"):
        path, done = record(["touch", fresh(".ran")], "--push", url, text=True, env=environment())
        assert done.returncode == 125 and not os.path.exists(path) and len(done.stderr.splitlines()) == 1, done


# ---- trust and secrets -----------------------------------------------------------------------------

def _tls(folder, name):
    needs("openssl")
    key, certificate = folder / f"{name}.key", folder / f"{name}.pem"
    output_of("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", certificate, "-days",
              "2", "-subj", f"/CN={name}", "-addext", f"subjectAltName={name}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, str(certificate)


def certificates_and_host_names_are_verified(folder):
    good, certificate = _tls(folder, "IP:127.0.0.1")
    other, other_certificate = _tls(folder, "DNS:other.example")
    server, stranger = Receiver(tls=good), Receiver(tls=other)
    _one_line(_push(server.url(scheme="https")), "certificate")
    _one_line(_push(stranger.url(scheme="https"), env=environment(SSL_CERT_FILE=other_certificate)), "127.0.0.1")
    assert not server.requests and not stranger.requests
    _pushed(server.url(scheme="https"), env=environment(SSL_CERT_FILE=certificate))
    _pushed(server.url(scheme="https"), env=environment(OTEL_EXPORTER_OTLP_CERTIFICATE=certificate))
    assert len(server.requests) == 4
    _one_line(_push(server.url(scheme="https"), env=environment(SSL_CERT_FILE="/nonexistent")), "/nonexistent")


def credentials_arrive_and_are_never_printed(folder):
    secret = "s3cr3t-t0ken"
    (folder / "headers").write_text(f"# a comment\n\nAuthorization: Bearer {secret}\nX-Scope-OrgID:  team 1 \n")
    for words, env, expected in (
            (["--header-file", folder / "headers"], {},
             {"Authorization": f"Bearer {secret}", "X-Scope-OrgID": "team 1"}),
            ([], {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Basic%20{secret},x-a=b"},
             {"authorization": f"Basic {secret}", "x-a": "b"}),
            ([], {"SONDE_PUSH_HEADERS": f"X-Key={secret}"}, {"X-Key": secret})):
        for status in (200, 403):
            said = f"bad token Bearer {secret} Basic {secret}".encode() if status == 403 else b""
            server = Receiver((status, {}, said))
            done = _push(server.url(), *words, env=environment(**env))
            assert done.returncode == (0 if status == 200 else 2) and secret not in done.stdout + done.stderr, done
            headers = server.requests[0][1]
            assert {name: headers.get(name) for name in expected} == expected, headers
    server = Receiver()
    _pushed(server.url("pyroscope+"), env=environment(OTEL_EXPORTER_OTLP_HEADERS=f"authorization={secret}"))
    assert "authorization" not in {name.lower() for name in server.requests[0][1]}, "of OTLP only"


def libcurl_is_loaded_by_a_push_alone():
    """No other command pays for it and its libraries, and without it a push says so."""
    assert "libcurl" not in output_of("ldd", SONDE)
    found = [line.split()[-1] for line in output_of("/sbin/ldconfig", "-p").splitlines() if "libcurl" in line]
    hide = "".join(f"mount --bind /dev/null {path} && " for path in found)
    words = ["unshare", "-m", "sh", "-c", f'{hide} exec "$@"', "sh"]
    if subprocess.run([*words, "true"], stderr=subprocess.DEVNULL).returncode:
        skip_part("a push without libcurl", "no mount namespace can be made")
        return
    done = subprocess.run([*words, SONDE, "push", "--to", "http://localhost:1", _recording()], capture_output=True,
                          text=True, check=False)
    assert done.returncode == 2 and done.stderr == "sonde push: libcurl is not installed (libcurl.so.4)\n", done


def wrong_use_is_one_line(folder):
    (folder / "bad").write_text("no colon here s3cr3t\n")
    (folder / "split").write_text("Name with spaces: s3cr3t\n")
    for url, words, env, text in (
            ("ftp://host", [], {}, "http[s]://HOST"), ("http://", [], {}, "http[s]://HOST"),
            ("http://a b", [], {}, "http[s]://HOST"), ("http://user:s3cr3t@host", [], {}, "credentials"),
            ("http://host", ["--header-file", folder / "none"], {}, "No such file"),
            ("http://host", ["--header-file", folder / "bad"], {}, "not 'Name: value'"),
            ("http://host", ["--header-file", folder / "split"], {}, "not 'Name: value'"),
            ("http://host", ["--header-file", folder], {}, str(folder)),
            ("http://host", ["--label", "s3cr3t"], {}, "NAME=VALUE"),
            ("http://host", [], {"OTEL_RESOURCE_ATTRIBUTES": "s3cr3t"}, "OTEL_RESOURCE_ATTRIBUTES"),
            ("http://host", [], {"OTEL_EXPORTER_OTLP_HEADERS": "a=%0d%0as3cr3t"}, "OTEL_EXPORTER_OTLP_HEADERS"),
            ("http://host", [], {"SONDE_PUSH_HEADERS": "a b=s3cr3t"}, "SONDE_PUSH_HEADERS"),
            ("http://host", ["--retry", "often"], {}, "--retry")):
        done = _push(url, *words, env=environment(**env))
        _one_line(done, text)
        assert "s3cr3t" not in done.stderr or "--label" in words, done
    assert try_sonde("push", _recording()).returncode == try_sonde("push", "--to", "http://host").returncode == 2


def recordings_that_cannot_be_pushed_do_not_keep_the_others_out(folder):
    (folder / "broken.sonde").write_bytes(b"not a recording")
    path, _ = record(["true"], "--stall", path=folder / "empty.sonde")
    os.symlink(_recording(), folder / "link.sonde")  # no file of the folder
    server = Receiver()
    done = try_sonde("push", "--json", "--to", server.url(), folder, _recording(), env=environment())
    told = json.loads(done.stdout)
    assert done.returncode == 2 and (told["recordings"], told["unreadable"]) == (1, 2), done
    assert "broken.sonde" in done.stderr and "empty.sonde" in done.stderr and len(server.requests) == 2, done


if __name__ == "__main__":
    run_cases(globals())
