# SPDX-License-Identifier: MIT
"""Random programs whose allocations, calls, opened files and waits are known: a program is a list of functions of
statements. `source` writes it in C or C++; `Model` executes the same statements in Python and counts. Nothing of sonde
takes part in the counts."""
import collections

SLOTS = 6
THERE, MISSING = "/dev/null", "/nonexistent/{}"
# The place of a stack: functions and statements, outermost first. Two statements are two places of a call.
Block = collections.namedtuple("Block", "size place thread")


class Program:
    """Functions f0…; the threads' own functions t0…, of which t0 is called by main."""

    def __init__(self, draw, with_sleeps):
        self.draw, self.is_cxx = draw, draw.random() < 0.4
        self.threads, self.status = draw.choice((1, 1, 2, 3)), draw.randrange(50)
        self.count = draw.randrange(3, 8)
        self.functions = {}
        for i in reversed(range(self.count)):
            self.functions[f"gen_f{i}"] = [self._statement(i) for _ in range(draw.randrange(1, 6))]
        for i in range(self.threads):
            body = [self._statement(-1) for _ in range(draw.randrange(2, 7))]
            body += [("sleep", draw.randrange(20, 80) * 1000)] if with_sleeps else []
            self.functions[f"gen_t{i}"] = body + [("call", f"gen_f{draw.randrange(self.count)}", 1)]

    def _statement(self, i):
        draw = self.draw
        kinds = ["malloc", "malloc", "calloc", "realloc", "aligned", "free", "free", "lose"]
        kinds += ["open", "miss", "mkdir", "unlink"]
        kinds += ["new"] * 2 * self.is_cxx + ["call"] * 5 * (i < self.count - 1)
        kind, slot, size = draw.choice(kinds), draw.randrange(SLOTS), draw.choice((1, 24, 100, 1000, 5000, 300000))
        size += draw.randrange(size)
        if kind == "call":
            return kind, f"gen_f{draw.randrange(i + 1, self.count)}", draw.choice((1, 1, 2, 3))
        if kind == "aligned":
            return kind, slot, draw.choice((16, 64, 4096)), size
        if kind in ("malloc", "new", "calloc", "realloc"):
            return kind, slot, size
        return {"free": (kind, slot), "lose": (kind, size)}.get(kind, (kind, draw.randrange(4)))

    def size(self):
        """How many statements are executed."""
        sizes = {}
        for name, statements in self.functions.items():  # a function calls earlier ones alone
            sizes[name] = len(statements) + sum(sizes[s[1]] * s[2] for s in statements if s[0] == "call")
        return sum(sizes[f"gen_t{i}"] for i in range(self.threads))

    # ---- as source --------------------------------------------------------------------------------

    def source(self):
        times, bodies = [], []
        for name, statements in self.functions.items():
            lines = [self._line(statement, times) for statement in statements]
            bodies.append(f"WORK void {name}(void) {{\n" + "\n".join(lines) + "\n  __asm__ volatile(\"\");\n}\n")
        threads = "\n".join(f"static void *run_t{i}(void *at) {{ begin({i}); gen_t{i}(); end({i}); return at; }}"
                            for i in range(1, self.threads))
        start = "\n".join(f"  pthread_create(&threads[{i}], NULL, run_t{i}, NULL);" for i in range(1, self.threads))
        join = "\n".join(f"  pthread_join(threads[{i}], NULL);" for i in range(1, self.threads))
        return _FRAME.format(times=", ".join(times or ["0"]), bodies="".join(bodies), threads=threads, start=start,
                             join=join, count=self.threads, status=self.status, slots=SLOTS)

    def _line(self, statement, times):
        kind, *words = statement
        if kind == "call":
            times.append(str(words[1]))
            return f"  for (int n = times[{len(times) - 1}]; n > 0; n--) {words[0]}();"
        give = {"malloc": "malloc({1})", "calloc": "calloc(1, {1})", "new": "operator new({1})",
                "aligned": "NULL; aligned = posix_memalign((void **)&slot[{0}], {1}, {2})"}.get(kind)
        if give:
            drop = "GIVE_BACK({0});".format(*words)
            made = 1 if kind == "new" else 0
            return "  {} slot[{}] = {}; made[{}] = {};".format(drop, words[0], give.format(*words), words[0], made)
        return {"realloc": "  if (!made[{0}]) slot[{0}] = realloc(slot[{0}], {1});", "free": "  GIVE_BACK({0});",
                "lose": "  hide = malloc({0}); hide = NULL;", "sleep": "  sleep_us({0});",
                "open": '  closed(open("%s", O_RDONLY));' % THERE,
                "miss": '  (void)!open("/nonexistent/o{0}", O_RDWR);', "mkdir": '  (void)!mkdir("/", 07{0}0);',
                "unlink": '  (void)!unlink("/nonexistent/u{0}");'}[kind].format(*words)


_FRAME = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __cplusplus
#include <new>
extern "C" {{
#define DELETE(at) operator delete(at)
#else
#define DELETE(at) free(at)
#endif
#ifdef __clang__
#define WORK __attribute__((noinline))
#else
#define WORK __attribute__((noinline, noclone))
#endif
#define PLAIN static __attribute__((no_instrument_function, always_inline)) inline
static __thread void *volatile slot[{slots}], *volatile hide;
static __thread volatile int aligned;
static __thread volatile char made[{slots}];
static volatile int times[] = {{{times}}};
static long tids[{count}];
static __thread long slept;
static long sleeps[{count}];
#define GIVE_BACK(i) if (slot[i]) {{ if (made[i]) DELETE(slot[i]); else free(slot[i]); slot[i] = NULL; made[i] = 0; }}
PLAIN void closed(int fd) {{ if (fd >= 0) close(fd); }}
PLAIN void sleep_us(int us) {{
  struct timespec a, b;
  clock_gettime(CLOCK_MONOTONIC, &a);
  usleep(us);
  clock_gettime(CLOCK_MONOTONIC, &b);
  slept += (b.tv_sec - a.tv_sec) * 1000000000L + b.tv_nsec - a.tv_nsec;
}}
PLAIN void begin(int i) {{ tids[i] = syscall(SYS_gettid); }}
PLAIN void end(int i) {{ sleeps[i] = slept; }}
{bodies}
{threads}
int main(void) {{
  pthread_t threads[{count}];
  (void)threads;
  begin(0);
{start}
  gen_t0();
{join}
  end(0);
  char line[64];
  for (int i = 0; i < {count}; i++)
    if (write(1, line, snprintf(line, sizeof line, "%ld %ld\n", tids[i], sleeps[i])) < 0) return 99;
  return {status};
}}
#ifdef __cplusplus
}}
#endif
"""


# ---- as counts ------------------------------------------------------------------------------------

class Model:
    """What the program does. The amounts are lists of blocks and bytes."""

    def __init__(self, program):
        self.program, self.events = program, 0
        self.kinds = collections.Counter()                         # events by their kind
        self.allocated = collections.defaultdict(lambda: [0, 0])   # by path
        self.live = collections.defaultdict(lambda: [0, 0])        # at the end, by the path that allocated
        self.frees, self.temporary = collections.Counter(), collections.Counter()
        self.stacks = collections.defaultdict(set)                 # by owner: its distinct stacks of allocations
        self.sizes = collections.Counter()                         # allocations by the power of 2 below their size
        self.by_thread = [[0, 0, 0] for _ in range(program.threads)]
        self.calls = collections.Counter()                         # by path
        self.audit = collections.Counter()                         # by owner, function, arguments and errno
        self.lost = [0, 0]                                         # blocks that nothing points to at the end
        self.now = self.peak = 0
        self.blocks, self.hidden = set(), 0
        for thread in range(program.threads):
            self.thread, self.slots, self.made, self.last = thread, [None] * SLOTS, [False] * SLOTS, None
            self._run(f"gen_t{thread}", (), ())
            if thread:  # its slots end with it
                for block in filter(None, self.slots):
                    self._count_lost(block)
        for block in self.blocks:
            self._add(self.live[tuple(block[0].place)], block[0].size)

    def _add(self, to, size):
        to[0] += 1
        to[1] += size

    def _count_lost(self, block):
        self._add(self.lost, block[0].size)

    def _run(self, name, path, sites):
        path += (name,)
        self.calls[path] += 1
        for number, (kind, *words) in enumerate(self.program.functions[name]):
            at = sites + (number,)
            if kind == "call":
                for _ in range(words[1]):
                    self._run(words[0], path, at)
            elif kind in ("malloc", "calloc", "new", "aligned"):
                self._free(words[0], path)
                self.slots[words[0]] = self._allocate(kind, words[-1], path, at)
                self.made[words[0]] = kind == "new"
            elif kind == "realloc" and not self.made[words[0]]:
                self._reallocate(words[0], words[1], path, at)
            elif kind == "free":
                self._free(words[0], path)
            elif kind == "lose":
                self._count_lost(self._allocate("malloc", words[0], path, at))
            elif kind in ("open", "miss", "mkdir", "unlink"):
                self._audit(kind, words[0], name)

    def _allocate(self, kind, size, path, at):
        block = (Block(size, path, self.thread), len(self.blocks), self.events)  # a block is unlike all others
        self._event({"new": "malloc"}.get(kind, kind))
        self._add(self.allocated[path], size)
        self.stacks[path[-1]].add((path, at))
        self.sizes[size.bit_length() - 1] += 1
        self._add(self.by_thread[self.thread], size)
        self.blocks.add(block)
        self.now += size
        self.peak = max(self.peak, self.now)
        self.last = block
        return block

    def _reallocate(self, slot, size, path, at):
        old = self.slots[slot]
        if old:
            self.blocks.discard(old)
            self.now -= old[0].size
        self.slots[slot] = self._allocate("realloc" if old else "malloc", size, path, at)

    def _free(self, slot, path):
        block = self.slots[slot]
        if not block:
            return
        self._event("free")
        self.frees[path] += 1
        self.by_thread[self.thread][2] += 1
        if self.last == block:
            self.temporary[block[0].place] += 1
        self.blocks.discard(block)
        self.now -= block[0].size
        self.slots[slot], self.made[slot], self.last = None, False, None

    def _event(self, kind):
        self.events += 1
        self.kinds[kind] += 1

    def _audit(self, kind, number, owner):
        self.audit[{"open": (owner, "open", f'"{THERE}", O_RDONLY', 0),
                    "miss": (owner, "open", f'"/nonexistent/o{number}", O_RDWR', 2),
                    "mkdir": (owner, "mkdir", f'"/", 07{number}0', 17),
                    "unlink": (owner, "unlink", f'"/nonexistent/u{number}"', 2)}[kind]] += 1


def generate(draw, with_sleeps, most=3000):
    """A program of 30 to MOST events and at most as many calls, and its model."""
    while True:
        program = Program(draw, with_sleeps)
        if program.size() <= 4 * most:
            model = Model(program)
            if 30 <= model.events <= most and sum(model.calls.values()) <= most:
                return program, model


def total(amounts):
    """The sum of lists of blocks and bytes, as in a report."""
    return {"blocks": sum(a[0] for a in amounts), "bytes": sum(a[1] for a in amounts)}
