#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A small server at work, for `./run demo` to look at: threads that wait, hash, sort and compress."""
import hashlib
import json
import queue
import threading
import time
import zlib

jobs = queue.Queue()


def consume():
    while True:
        jobs.get()


def hash_blocks(block=bytes(1 << 20)):
    while True:
        hashlib.sha256(block).hexdigest()
        time.sleep(0.001)


def sort_names():
    names = [f"name{i * 7919 % 10007}" for i in range(10007)]
    while True:
        sorted(names, key=lambda name: name[::-1])


def compress(text=json.dumps(list(range(50000))).encode()):
    while True:
        zlib.compress(text)


for work in (consume, hash_blocks, sort_names, compress):
    threading.Thread(target=work, name=work.__name__, daemon=True).start()
print("ready", flush=True)
threading.Event().wait()
