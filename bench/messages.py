#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What tracing an Objective-C message costs, start and end: the program alone, and under
sonde record --trace='-[Counter *]', in turns. The least of the rounds counts."""
import os
import subprocess
import tempfile

SONDE = os.environ.get("SONDE", "build-test/bin/sonde")
CALLS, ROUNDS = 3_000_000, 7
PROGRAM = """
#include <objc/runtime.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((objc_root_class)) @interface Counter { Class isa; long n; }
- (long)add:(long)x;
@end
@implementation Counter
+ (void)initialize {}
- (long)add:(long)x { return n += x; }
@end
int main(int count, char **arguments) {
  long calls = count > 1 ? atol(arguments[1]) : 1, x = 0;
  Counter *c = class_createInstance([Counter class], 0);
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  for (long i = 0; i < calls; i++) x = [c add:i];
  clock_gettime(CLOCK_MONOTONIC, &b);
  printf("%.3f %ld\\n", ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / calls, x);
}
"""


def main():
    with tempfile.TemporaryDirectory() as folder:
        source, program = (os.path.join(folder, name) for name in ("program.m", "program"))
        with open(source, "w") as f:
            f.write(PROGRAM.replace("[Counter class]", 'objc_getClass("Counter")'))
        subprocess.run(["gcc", "-std=gnu11", "-O2", "-w", source, "-lobjc", "-o", program], check=True)
        ways = {"alone": [], "traced": [SONDE, "record", "--trace=-[Counter *]", "-o", f"{folder}/out", "--"]}
        times = {way: [] for way in ways}
        for _ in range(ROUNDS):
            for way, command in ways.items():
                if os.path.exists(f"{folder}/out"):
                    os.unlink(f"{folder}/out")
                done = subprocess.run([*command, program, str(CALLS)], capture_output=True, text=True, check=True)
                times[way].append(float(done.stdout.split()[0]))
    alone, traced = min(times["alone"]), min(times["traced"])
    print(f"a message, ns: alone {alone:.1f}, traced {traced:.1f}, added {traced - alone:.1f}")


main()
