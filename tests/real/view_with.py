#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sonde view --with: the viewers that are installed open the file, and those on the network load it from loopback.
profiler.firefox.com cannot be reached by a test, so an empty page of that origin loads the file; the importer of
that viewer reads the same bytes in timeline_exports.py."""
import contextlib
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

from helpers import (SONDE, SOURCE, check, fresh, needs, needs_agent, record, report, run_cases, skip,
                     sonde, states_of, try_sonde, until)

needs_agent()

PAGE = os.path.join(SOURCE, "page")
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PROGRAM = "x = [str(i) * 3 for i in range(200000)]; print(len({a: [a] for a in x}))"
ORIGIN = "https://profiler.firefox.com"


@functools.cache
def recorded():
    path = fresh()
    record([sys.executable, "-c", PROGRAM], "--sample=499", "--malloc", path=path)
    return path


@contextlib.contextmanager
def shown(viewer, *options, **variables):
    """`sonde view --with`, which Ctrl-C ends: then nothing of it is left."""
    folder = fresh(".tmp")
    os.mkdir(folder)
    environment = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY")}
    with subprocess.Popen([SONDE, "view", "--with", viewer, *options, recorded()], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True,
                          env={**environment, "TMPDIR": folder, **variables}) as process:
        try:
            yield process
        finally:
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=60)
    check(process.returncode == 0, (process.returncode, told))
    check(not os.listdir(folder), os.listdir(folder))


def served_url(process):
    """The URL of the file on loopback, in the address of the viewer's page."""
    address = process.stdout.readline().strip()
    url = urllib.parse.unquote(re.search(r"http%3A.*", address)[0])
    check(re.fullmatch(r"http://127\.0\.0\.1:\d+/[0-9a-f]{32}/profile\.json", url), url)
    return url, address


def fetched(url, method="GET", **headers):
    """The status, the headers and the body of an answer."""
    request = urllib.request.Request(url, method=method, headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.headers, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read()


def firefox_file():
    """The file is that of sonde export, for the page of profiler.firefox.com alone, and nobody else finds it."""
    with shown("firefox") as process:
        url, address = served_url(process)
        check(address.startswith(ORIGIN + "/from-url/http%3A%2F%2F127.0.0.1%3A"), address)
        status, headers, body = fetched(url, Origin=ORIGIN)
        check(status == 200 and headers["Content-Type"] == "application/json", headers)
        check(headers["Access-Control-Allow-Origin"] == ORIGIN and headers["Content-Encoding"] == "gzip", headers)
        check(body == sonde("export", "--as", "firefox", recorded(), text=False), "not the file of sonde export")
        status, headers, body = fetched(url, "HEAD")
        check(status == 200 and int(headers["Content-Length"]) > 1000 and not body, headers)
        status, headers, _ = fetched(url, "OPTIONS", Origin=ORIGIN)
        check(status == 204 and headers["Access-Control-Allow-Private-Network"] == "true", headers)
        port = urllib.parse.urlsplit(url).port
        for wrong, expected in ((dict(url=url[:-1]), 404), (dict(url=f"http://127.0.0.1:{port}/"), 404),
                                (dict(url=url, Origin="https://example.org"), 403),
                                (dict(url=url, Host=f"example.org:{port}"), 403), (dict(url=url, method="POST"), 405)):
            check(fetched(**wrong)[0] == expected, wrong)
        refuses_endless_heads(port)
        check(fetched(url)[0] == 200, "the server is there after wrong requests")


def refuses_endless_heads(port):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection:
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"GET / HTTP/1.1\r\nA: " + b"a" * 100000)
            check(connection.recv(100) == b"", "an answer to a head without an end")


def pages_load():
    """The released page of speedscope shows the functions with their samples; a page of profiler.firefox.com may
    load its file."""
    needs("node")
    if not CHROMIUM:
        skip("chromium is missing")
    if not os.path.isdir(os.path.join(PAGE, "node_modules", "speedscope")):
        skip("the npm packages of page/ are missing")
    folder = fresh(".bin")
    os.mkdir(folder)  # without the command of speedscope
    with shown("firefox") as firefox, shown("speedscope", PATH=folder) as speedscope:
        addresses = [process.stdout.readline().strip() for process in (firefox, speedscope)]
        run = subprocess.run(["node", os.path.join(PAGE, "test", "viewers.mjs"), CHROMIUM, *addresses],
                             capture_output=True, text=True, timeout=150, check=False)
    check(run.returncode == 0, run.stderr)
    firefox, speedscope = [json.loads(line) for line in run.stdout.splitlines()]
    check(not firefox["errors"] and not speedscope["errors"], (firefox, speedscope))
    samples = report(recorded(), "--top", "100000")["sample"]
    check(firefox["samples"] == samples["samples"], firefox)
    check(speedscope["title"].endswith(" - speedscope"), speedscope["title"])
    shares = {row[2]: float(re.search(r"([\d.]+)%\)", row[1])[1]) for row in speedscope["rows"][1:]}
    # Above 10 % speedscope rounds to a whole percent.
    for function in samples["functions"][:5]:
        share = 100 * function["self"] / samples["samples"]
        if share >= 5:
            check(abs(shares[function["function"]] - share) <= 0.6, (function, shares))


@contextlib.contextmanager
def session_bus():
    """The address of a D-Bus session bus: without one kcachegrind ends at once (dbus-daemon(1))."""
    needs("dbus-daemon")
    with subprocess.Popen(["dbus-daemon", "--session", "--nofork", "--print-address"], stdout=subprocess.PIPE,
                          text=True) as bus:
        try:
            yield bus.stdout.readline().strip()
        finally:
            bus.terminate()


def program(viewer, *names):
    """An installed viewer shows the file, and ends with sonde."""
    if not any(map(shutil.which, names)):
        skip(f"{names[0]} is not installed")
    kept, runtime = fresh(), fresh(".run")
    os.mkdir(runtime, 0o700)
    with session_bus() as bus, shown(viewer, "-o", kept, QT_QPA_PLATFORM="offscreen", XDG_RUNTIME_DIR=runtime,
                                     DBUS_SESSION_BUS_ADDRESS=bus) as process:
        until(lambda: waits_for_its_user(process, names), names[0])
        check(pathlib.Path(kept).stat().st_size > 1000, "no file")


def waits_for_its_user(process, names):
    """Whether the viewer runs and sleeps, as it does when its window is shown."""
    assert process.poll() is None, "the viewer ended"
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="utf-8").split()
    return any(pathlib.Path(f"/proc/{child}/comm").read_text(encoding="utf-8").strip() in names
               and states_of(child).get(int(child)) == "S" for child in children)


def heaptrack():
    program("heaptrack", "heaptrack_gui")


def kcachegrind():
    program("kcachegrind", "kcachegrind", "qcachegrind")


def refusals():
    """Wrong use is one line, before the recording is read."""
    for arguments in ("netscape", recorded()), ("firefox", recorded(), recorded()), ("firefox", "/nonexistent"):
        run = try_sonde("view", "--with", *arguments)
        check(run.returncode == 2 and len(run.stderr.strip().splitlines()) == 1, (arguments, run))
    folder = fresh(".bin")
    os.makedirs(os.path.join(folder, "heaptrack_gui"))  # a folder is no program
    run = try_sonde("view", "--with", "heaptrack", recorded(), env={**os.environ, "PATH": folder})
    check(run.returncode == 2 and "heaptrack-gui" in run.stderr and "not installed" in run.stderr, run)
    stand_in = os.path.join(folder, "kcachegrind")
    os.symlink("/bin/true", stand_in)
    blind = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "QT_QPA_PLATFORM")}
    run = try_sonde("view", "--with", "kcachegrind", recorded(), env={**blind, "PATH": folder})
    check(run.returncode == 2 and "needs a display" in run.stderr and run.stderr.count("\n") == 1, run)


run_cases([firefox_file, pages_load, heaptrack, kcachegrind, refusals])
