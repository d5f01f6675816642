# SPDX-License-Identifier: MIT
"""A program that computes in `crunch`, called by `Job.run` in a thread, and sleeps in `nap`."""
import threading
import time


def crunch():
    total = 0
    for i in range(20000):
        total += i * i
    return total


class Job:
    def run(self):
        while True:
            crunch()


def nap():
    time.sleep(1000)


threading.Thread(target=Job().run, daemon=True).start()
print("ready", flush=True)
nap()
