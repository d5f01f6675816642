# SPDX-License-Identifier: MIT
"""What the tests of the page and of the exports with times share."""

# Three threads that compute, wait for a lock, sleep and allocate.
PROGRAM = """
import hashlib, json, threading, time
lock, data = threading.Lock(), []
def worker(n):
    for i in range(15):
        with lock:
            data.append(json.dumps({"a": list(range(2000)), "n": n}))
            time.sleep(0.005)
        hashlib.sha256(b"x" * 3000000).hexdigest()
threads = [threading.Thread(target=worker, args=(i,)) for i in range(3)]
for t in threads: t.start()
for t in threads: t.join()
"""
