#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Memory graphs, made by Python's plistlib: the list of images is found in text, in data, in dictionaries, in archives and in
what is compressed, in binary and in XML; table and log of a graph give the recording that the same bytes in files give; what is
not read is said; graphs that nobody wrote are read or refused in bounded time and memory. SONDE_SEED chooses the files."""
import json
import os
import plistlib
import random
import struct

from apple import generate, memgraph
from apple.memgraph import GZIP, LZFSE, STORED, archive, array, binary, described, graph, packed, raw, reported, with_log
from helpers import SEED, WORK, check, run_cases
from shared.bounded import bounded_sonde

LOG = "stack-logs.812.1059c0000.App.x1Yz2q.index"
IMAGES = [(0x104a30000, 0x8000, "/Applications/My App.app/MyApp", "6a1b5d3e-0c9f-4a55-8e0b-2f1f0a5a6b7c"),
          (0x104b00000, 0x4000, "/usr/lib/libone.dylib", "00112233-4455-6677-8899-aabbccddeeff"),
          (0x1a0000000, 0x10000, "/usr/lib/libtwo.dylib", "ffeeddcc-bbaa-9988-7766-554433221100")]
os.environ["XDG_CACHE_HOME"] = os.path.join(WORK, "cache")


def dictionaries(images, start="base", text=False):
    return [{start: hex(at) if text else at, "size": size, "path": path, "uuid": uid} for at, size, path, uid in images]


def forms():
    text = described(IMAGES)
    lines = text.split("\n", 1)[1]
    process = {"processGraphInfo": {"pid": 812, "binaryImages": dictionaries(IMAGES)}}
    return {
        "as Apple's tools write it, compressed": binary(graph(binaryImagesDescription=packed(archive(text)))),
        "as Apple's tools write it, stored": binary(graph(binaryImagesDescription=packed(archive(text), STORED))),
        "without a title": binary(graph(binaryImagesDescription=packed(archive(lines)))),
        "an archive as it is": archive(text),
        "a string": binary({"any": ["thing", {"report": "Process: App\n\n" + text}]}),
        "a string in XML": plistlib.dumps({"any": ["thing", {"report": text}]}),
        "data": binary([b"other", text.encode()]),
        "data in XML": plistlib.dumps({"images": text.encode()}),
        "dictionaries": binary(process),
        "dictionaries in XML": plistlib.dumps(process),
        "dictionaries with addresses as text": binary(dictionaries(IMAGES, "address", True)),
        "archived dictionaries": binary(graph(images=packed(memgraph.archived_images(IMAGES)))),
        "a container": with_log(binary(graph(binaryImagesDescription=packed(archive(text)))), b"", b"OTHER\0\0\0"),
        "a report": reported(binary(graph(binaryImagesDescription=packed(archive(text))))),
        "twice": binary([text, dictionaries(IMAGES), text]),
    }


def images(folder):
    """Each image is known from its first byte to its last, and not beyond."""
    file = folder / "App.memgraph"
    for what, data in forms().items():
        file.write_bytes(data)
        asked = [hex(at) for start, size, _, _ in IMAGES for at in (start, start + size - 1, start + size)]
        done = bounded_sonde("symbolize", "--json", "--images", file, *asked)
        answers = json.loads(done.stdout or '{"addresses":[]}')["addresses"]
        check([answer.get("module") for answer in answers] == [name for _, _, path, _ in IMAGES for name in (path, path, None)],
              f"{what}: {done.stdout}{done.stderr}")
    print(f"images of {len(forms())} forms")


def recordings(folder):
    rng = random.Random(SEED)
    table = generate.Table(rng, 1 << 10)
    stacks = [table.stack([IMAGES[0][0] + 4 * rng.randrange(0x2000) for _ in range(9)] + [0x16f000001]) for _ in range(40)]
    log = b"".join(generate.record(24, a, at, stack, kind, tag) for kind, a, at, stack, tag in generate.history(rng, 500, stacks)[0])
    (folder / LOG).write_bytes(log)
    (folder / "table").write_bytes(table.bytes())
    (folder / "images").write_text(described(IMAGES))
    bounded_sonde("import", LOG, "table", "images", "-o", "want.sonde", cwd=folder)
    want = bounded_sonde("events", "--stacks", folder / "want.sonde").stdout
    check(want.count("\n") == 500, f"{want.count(chr(10))} events of 500")
    description = packed(archive(described(IMAGES)))
    for how in (GZIP, STORED):
        reader = packed(archive({"originalUniquingTableContents": packed(table.bytes(), how)}), how)
        plist = binary(graph(binaryImagesDescription=description, stackLogReader=reader))
        for what, data, given in (("a graph beside the log", plist, [LOG]), ("a graph with its log", with_log(plist, log), []),
                                  ("a graph and the table", plist, [LOG, "table"])):
            (folder / "App.memgraph").write_bytes(data)
            (folder / "App.812.sonde").unlink(missing_ok=True)
            done = bounded_sonde("import", "--records", 24, *given, "App.memgraph", cwd=folder)
            got = bounded_sonde("events", "--stacks", folder / "App.812.sonde").stdout
            check(done.returncode == 0 and "of App (812): 3 images, a stack table" in done.stderr, f"{what}: {done.stderr}")
            check(got == want, f"{what}: {len(got)} characters of events, not {len(want)}")
    print("table and log of a graph give what the files give")


def refusals(folder):
    description = packed(archive(described(IMAGES)))
    other = bytearray(generate.Table(random.Random(1), 64).bytes())
    other[100] = 1
    file, log = folder / "g.memgraph", folder / LOG
    log.write_bytes(generate.record(24, 16, 0x1000, 3, generate.ALLOC) * 10)

    def said(data, status, *words, given=(log,), lines=None):
        file.write_bytes(data)
        done = bounded_sonde("import", "--records", 24, *given, file, "-o", folder / "out.sonde")
        check(done.returncode == status and all(word in done.stderr for word in words) and
              (lines is None or done.stderr.count("\n") == lines), f"{words}, {status}: exit {done.returncode}, {done.stderr}")

    said(binary(graph(binaryImagesDescription=description, stackLogReader=packed(bytes(other)))), 0, "3 images",
         "no stack table of a known version")
    said(binary(graph(binaryImagesDescription=packed(archive("x"), LZFSE), more=described(IMAGES))), 0, "3 images",
         "1 parts compressed as LZFSE")
    said(binary(graph(binaryImagesDescription=description, edges=packed(b"Binary Images")[:-1])), 0, "3 images")
    said(binary(graph()), 2, "without a list of images, a stack table or a log", lines=1)
    said(binary({"address": 4096, "path": "relative", "uuid": "1"}), 2, "without a list of images", lines=1)
    said(binary(graph(binaryImagesDescription=description)), 2, "3 images", "no file is a malloc stack log", given=())
    said(b"MEMGRAPH" + struct.pack("<QQQQQ", 1, 48, 10, 0, 0) + bytes(64), 2, "unknown version", lines=1)
    said(b"bplist00" + bytes(64), 2, "damaged or truncated", lines=1)
    file.write_bytes(binary(graph()))
    done = bounded_sonde("symbolize", "--images", file, "0x1000")
    check(done.returncode == 2 and done.stderr.count("\n") == 1 and "without a list of images" in done.stderr, done.stderr)
    print("what a graph lacks, and what of it is not read, is said")


def hostile_lists():
    leaf, deep = b"\x10\x01", 100000
    keys = [plistlib.UID(1), plistlib.UID(2), plistlib.UID(99)]
    circle = {"NS.keys": keys, "NS.objects": keys, "base": plistlib.UID(1), "path": plistlib.UID(2), "uuid": plistlib.UID(1)}
    nested = archive("x")
    for _ in range(12):
        nested = archive(nested, packed(nested))
    bomb = packed(b"Binary Images:\n" + bytes(300 << 20))
    return {
        "arrays in a circle": raw([array(1), array(0)]),
        "an array in itself": raw([array(0)]),
        "a hundred thousand arrays deep": raw([array(i + 1) for i in range(deep)] + [leaf]),
        "a billion nodes from seventy": raw([array(*[i + 1] * 10) for i in range(9)] + [leaf]),
        "half a million nodes in sixty arrays": raw([array(i + 1) for i in range(55)] + [array(*[i + 56] * 8) for i in range(6)] + [leaf]),
        "lists of lists, each named often": binary([[archive([archive([b"bplist00"] * 50)] * 50)] * 50] * 50),
        "one string a million times": raw([array(*[1] * 500000), b"\x5f\x12" + struct.pack(">I", 1 << 20) + b"x" * (1 << 20)]),
        "2^60 objects": raw([leaf], count=1 << 60),
        "a top out of range": raw([leaf], top=1),
        "a table before the objects": raw([leaf], table=0),
        "an object out of range": raw([array(7)]),
        "an array of 2^63": raw([b"\xaf\x13" + struct.pack(">Q", 1 << 63)]),
        "data of 2^64 - 1": raw([b"\x4f\x13" + b"\xff" * 8]),
        "XML a hundred thousand deep": b"<?xml version='1.0'?><plist version='1.0'>" + b"<array>" * deep + b"</array>" * deep + b"</plist>",
        "XML that ends": plistlib.dumps({"a": described(IMAGES)})[:-40],
        "numbers in a circle": archive(circle, circle, {"NS.keys": plistlib.UID(3), "NS.objects": keys}),
        "archives in archives": nested,
        "300 MB of zeros, compressed": binary([bomb]),
        "a header that promises 4 GB": binary([struct.pack("<IIII", 16, 64, 0xffffffff, 1 << 16) + bytes(64)]),
        "a container beyond its end": b"MEMGRAPH" + struct.pack("<QQQQIHH", 0, 48, 1 << 63, 1 << 63, 1 << 31, 32, 48) + bytes(64),
    }


def hostile(folder):
    rng = random.Random(SEED)
    file, out, log = folder / "h.memgraph", folder / "h.sonde", folder / LOG
    log.write_bytes(generate.record(24, 16, 0x1000, 3, generate.ALLOC) * 10)

    def read(what, data):
        file.write_bytes(data)
        done = bounded_sonde("import", "--records", 24, log, file, "-o", out)
        check(done.returncode in (0, 2) and 0 < done.stderr.count("\n") < 8, f"{what}: exit {done.returncode}, {done.stderr[-300:]}")
        return done.stderr

    for what, data in hostile_lists().items():
        read(what, data)
    named = binary(graph(processName="App\x1b[31m", binaryImagesDescription=packed(archive(described(IMAGES)))))
    said = read("a name that is no text", named.replace(b"App\x1b", b"\xc1pp\x1b"))
    check(" of ?pp?[31m (812)" in said, said)
    table = generate.Table(rng, 64)
    whole = with_log(binary(graph(binaryImagesDescription=packed(archive(described(IMAGES))), dictionaries=dictionaries(IMAGES),
                                  table=packed(archive({"t": packed(table.bytes())})))), log.read_bytes())
    for _ in range(15):
        read("cut off", whole[:rng.randrange(9, len(whole))])
        spoilt = bytearray(whole)
        for _ in range(rng.choice((1, 3, 40))):
            spoilt[rng.randrange(8, len(spoilt))] ^= 1 << rng.randrange(8)
        read("bits flipped", bytes(spoilt))
    print(f"{len(hostile_lists())} lists that nobody wrote, 30 that are damaged")


run_cases([images, recordings, refusals, hostile])
