// SPDX-License-Identifier: MIT
//
// The figures of the views, of a small recording whose figures are known.
import assert from "node:assert/strict";
import test from "node:test";
import { gzipSync } from "node:zlib";
import { binNs, labelLeft, momentEnd, snap } from "../src/axis";
import { callersOf, callSums, longestCalls, nesting } from "../src/calls";
import { Data, readData } from "../src/data";
import { changeOf, diffRows, diffTree } from "../src/diff";
import { bytes, duration, percent } from "../src/format";
import { spreadQueued, stateAt } from "../src/lanes";
import { glance } from "../src/glance";
import { fileSums } from "../src/lines";
import {
  byOwner,
  compile,
  cpuWeights,
  Filter,
  functionSums,
  matches,
  memoryAmounts,
  mergedTree,
  resources,
  timeTree,
  total,
  waitSums,
  WHOLE,
} from "../src/model";

/* main calls work and work calls libc's sort; main calls idle. Stacks: 1 main, 2 main work,
 * 3 main work sort, 4 main idle, 5 main work (another line). */
function recording(): Data {
  return new Data({
    version: 1,
    report: {
      pid: 7,
      duration_ns: 10e6,
      sample: { samples: 10, cpu_time: { sampled_ns: 10e6 } },
      wall: { threads: [{ tid: 7, name: "main", blocked_ns: 4e6 }] },
      malloc: { allocated: { blocks: 3, bytes: 600 }, temporary: 1 },
    },
    strings: ["", "main", "work", "sort", "idle", "app", "libc.so.6", "app.c", "futex", "0x10"],
    frames: {
      function: [0, 1, 2, 3, 4, 2],
      file: [0, 7, 7, 0, 7, 7],
      line: [0, 1, 2, 0, 4, 9],
      library: [0, 5, 5, 6, 5, 5],
      flags: [0, 1, 1, 2, 1, 1],
    },
    stacks: { parent: [0, 0, 1, 2, 1, 1], frame: [0, 1, 2, 3, 4, 5] },
    threads: { tid: [7, 8], name: [1, 2] },
    samples: {
      unit_ns: 1000,
      from: [1000, 1000, 1000, 1000],
      thread: [7, 7, 7, 8],
      stack: [3, 5, 4, 2],
      samples: [4, 3, 2, 1],
    },
    waits: {
      unit_ns: 1000,
      from: [0, 4000],
      length: [2000, 2000],
      thread: [7, 7],
      place: [0, 1],
      samples: [2, 2],
      ns: [1e6, 1e6],
    },
    queued: { unit_ns: 1000, from: [], length: [], thread: [], run_ns: [], queued_ns: [] },
    places: {
      stack: [4, 2],
      call: [8, 8],
      kind: [0, 0],
      what: [0, 0],
      futex: [9, 9],
      owner: [0, 8],
      mutex: [0, 1],
    },
    blocks: {
      unit_ns: 1e6,
      from: [1, 1, 2],
      length: [-1, 3, 0],
      thread: [7, 7, 8],
      stack: [3, 4, 2],
      temporary: [0, 0, 1],
      blocks_256: [256, 256, 256],
      bytes: [100, 200, 300],
    },
    block_totals: {
      stack: [3, 4, 2],
      allocated: [1, 1, 1],
      allocated_bytes: [100, 200, 300],
      peak: [1, 1, 1],
      peak_bytes: [100, 200, 300],
      live: [1, 0, 0],
      live_bytes: [100, 0, 0],
      temporary: [0, 0, 1],
    },
    heap: { unit_ns: 1000, points: [1000, 300, 300, 4000, 600, 300] },
    marks: { ns: [], thread: [], name: [] },
    calls: { ns: [], thread: [], name: [] },
    /* main calls work twice, and the second work calls sort; idle is called by nothing that was traced. */
    call_nodes: { parent: [0, 0, 1, 2, 0], frame: [0, 1, 2, 3, 4], recursive: [0, 0, 0, 0, 0] },
    spans: {
      unit_ns: 1,
      from: [1e6, 1e6, 2e6, 1e6, 5e6],
      length: [8e6, 1e6, 4e6, 2e6, 5e5],
      thread: [7, 7, 7, 7, 7],
      node: [1, 2, 2, 3, 4],
      open: [1, 0, 0, 0, 0],
    },
    call_sums: {
      unit_ns: 1e6,
      from: [1, 0, 0, 0, 2, 0, 1, 0, 5, 0],
      thread: [7, 7, 7, 7, 7, 7, 7, 7, 8, 8],
      node: [1, 1, 2, 2, 2, 2, 3, 3, 4, 4],
      self: [0, 1, 0, 1, 0, 1, 0, 1, 0, 1],
      calls: [1, 0, 1, 0, 1, 0, 1, 0, 1, 0],
      ns: [8e6, 3e6, 1e6, 1e6, 4e6, 2e6, 2e6, 2e6, 5e5, 5e5],
    },
    stall_stacks: [],
  });
}

const all: Filter = { range: WHOLE, tid: 0, library: "" };
const data = recording();
const sums = (filter: Filter) =>
  Object.fromEntries(
    functionSums(data, cpuWeights(data, filter)).map((s) => [s.fn.name, [s.self, s.own, s.total]]),
  );

test("a selection snaps to the largest bins", () => {
  assert.equal(binNs(data), 1e6);
  const ends = (from: number, to: number) => Object.values(snap({ from, to }, 1e6, 10.4e6));
  assert.deepEqual(ends(1.4e6, 3.6e6), [1e6, 4e6]);
  assert.deepEqual(ends(1.4e6, 1.41e6), [1e6, 2e6], "at least one bin");
  assert.deepEqual(ends(0, 10.4e6), [0, Infinity], "up to the end");
  assert.deepEqual(ends(10.39e6, Infinity), [10e6, Infinity], "the last bin");
  assert.deepEqual(ends(-5, 10.3e6), [0, 10e6]);
  assert.equal(momentEnd(2.5e6, 1e6, 10e6), 3e6);
  assert.equal(momentEnd(9.5e6, 1e6, 9.7e6), 9.7e6);
});

test("a label is inside the time line", () => {
  for (const width of [320, 1280, 1920, 3840])
    for (let x = 76; x <= width; x++) {
      const left = labelLeft(x, 90, 79, width - 3);
      assert.ok(left >= 79 && left + 90 <= width - 3, `${left} of ${width}`);
    }
  assert.equal(labelLeft(100, 90, 79, 317), 107);
});

test("one number stands for a column of equal ones", async () => {
  const { raw } = recording();
  const samples = { ...raw.samples, thread: 7, samples: 3 };
  const packed = gzipSync(JSON.stringify({ ...raw, samples })).toString("base64");
  const read = await readData(packed);
  assert.deepEqual(read.raw.samples.thread, [7, 7, 7, 7]);
  assert.deepEqual(read.raw.samples.samples, [3, 3, 3, 3]);
  assert.equal(read.raw.samples.unit_ns, 1000);
  assert.deepEqual(read.samples, data.samples);
});

test("resources have the values at the ends of the range", () => {
  const used = recording();
  const points = [
    [0, 5],
    [100, 9],
    [200, 7],
  ];
  used.report.usage = {
    rss_bytes: { first: 5, last: 7, peak: 10, points },
    peak_rss_bytes: { first: 5, last: 11, peak: 11, points: [[0, 5]] },
    swap_bytes: { first: 0, last: 0, peak: 0, points: [[0, 0]] },
  };
  const rows = (range: { from: number; to: number }) =>
    resources(used, range).map((r) => [r.key, r.first, r.last, r.peak, r.points.length]);
  assert.deepEqual(rows(WHOLE), [["rss_bytes", 5, 7, 11, 3]]);
  assert.deepEqual(rows({ from: 50, to: 150 }), [["rss_bytes", 5, 9, 9, 1]]);
  assert.deepEqual(rows({ from: 120, to: 180 }), [["rss_bytes", 9, 9, 9, 0]]);
  assert.deepEqual(rows({ from: 150, to: Infinity }), [["rss_bytes", 9, 7, 9, 1]]);
});

test("functions count once a stack, at all of their lines", () => {
  assert.deepEqual(sums(all), {
    main: [0, 0, 10],
    work: [4, 8, 8],
    sort: [4, 0, 4],
    idle: [2, 2, 2],
  });
});

test("ranges that touch add up to the whole", () => {
  const cut = 2.5e6;
  const first = total(cpuWeights(data, { ...all, range: { from: 0, to: cut } }));
  const second = total(cpuWeights(data, { ...all, range: { from: cut, to: Infinity } }));
  assert.deepEqual([first, second], [7, 3]);
});

test("filters by thread and by library", () => {
  assert.equal(total(cpuWeights(data, { ...all, tid: 8 })), 1);
  assert.equal(total(cpuWeights(data, { ...all, library: "libc.so.6" })), 4);
});

test("a tree holds each path once", () => {
  const weights = cpuWeights(data, all);
  const root = mergedTree(data, weights, { reversed: false, ownOnly: false });
  assert.equal(root.weight, 10);
  const main = root.children[0];
  assert.deepEqual(
    main.children.map((n) => [n.fn!.name, n.weight, n.self]),
    [
      ["work", 8, 4],
      ["idle", 2, 2],
    ],
  );
  const callers = mergedTree(data, weights, { reversed: true, ownOnly: false });
  assert.deepEqual(
    callers.children.map((n) => [n.fn!.name, n.weight]),
    [
      ["sort", 4],
      ["work", 4],
      ["idle", 2],
    ],
  );
  const own = mergedTree(data, weights, { reversed: false, ownOnly: true });
  assert.equal(own.children[0].children[0].children.length, 0);
});

test("in the order of time a call that comes back is a new node", () => {
  const root = timeTree(data, { ...all, tid: 7 }, { reversed: false, ownOnly: false });
  assert.deepEqual(
    root.children[0].children.map((n) => [n.fn!.name, n.weight]),
    [
      ["work", 7],
      ["idle", 2],
    ],
  );
});

test("blocks at a moment, kept, never freed and temporary", () => {
  const of = (mode: Parameters<typeof memoryAmounts>[2], range = WHOLE, moment = 0) =>
    total(memoryAmounts(data, { ...all, range }, mode, moment).bytes);
  assert.equal(of("peak"), 600);
  assert.equal(of("allocated"), 600);
  assert.equal(of("leaked"), 100);
  assert.equal(of("temporary"), 300);
  assert.equal(of("live", WHOLE, 2e6), 300);
  assert.equal(of("live", WHOLE, 9e6), 100);
  assert.equal(of("allocated", { from: 0, to: 3e6 }), 300);
  assert.equal(of("kept", { from: 0, to: 3e6 }), 300);
  assert.equal(of("kept", { from: 0, to: 8e6 }), 100);
});

test("the main figures are those of the report, with the function that has most", () => {
  const report = {
    sample: {
      samples: 10,
      cpu_time: { cpu_ns: 12e6, sampled_ns: 10e6 },
      functions: [
        { function: "main", total: 10, own: 1, self: 0 },
        { function: "work", total: 8, own: 8, self: 4 },
      ],
    },
    malloc: {
      peak: { bytes: 5e6 },
      peak_ns: 3.14159e9,
      live: { bytes: 1000 },
      functions: [
        { function: "work", peak: { bytes: 4e6 }, live: { bytes: 0 } },
        { function: "main", peak: { bytes: 1e6 }, live: { bytes: 250 } },
      ],
    },
    waits: {
      lock_ns: 3e9,
      locks: [{ lock: "0x12", variable: "book", time_ns: 1.5e9, owner_thread: "saver" }],
    },
  };
  const shown = (r: object) =>
    glance(Object.assign(Object.create(data), { report: r })).map((f) => [f.key, f.amount, f.most]);
  assert.deepEqual(shown(report), [
    ["cpu", "12.0 ms", "80.0 % in work"],
    ["peak", "5.00 MB, at 3.14 s", "80.0 % in work"],
    ["leaked", "1.00 KB", "25.0 % in main"],
    ["locks", "3.00 s", "50.0 % for book, held most by saver"],
  ]);
  assert.deepEqual(shown({ sample: { samples: 0, functions: [] }, waits: { lock_ns: 0 } }), []);
});

test("memory of unknown stacks is shown", () => {
  const bytes = new Map([
    [0, 50],
    [2, 10],
  ]);
  const unknown = "[a stack that is not in the recording]";
  const owners = byOwner(data, { bytes, blocks: new Map([[0, 5]]) });
  assert.deepEqual(
    owners.map((o) => [o.fn.name, o.bytes, o.blocks]),
    [
      [unknown, 50, 5],
      ["work", 10, 0],
    ],
  );
  const tree = mergedTree(data, bytes, { reversed: false, ownOnly: false });
  assert.deepEqual(
    tree.children.map((n) => [n.fn!.name, n.weight]),
    [
      [unknown, 50],
      ["main", 10],
    ],
  );
});

test("the innermost function of the program owns a stack", () => {
  const owners = byOwner(data, memoryAmounts(data, all, "peak", 0));
  assert.deepEqual(
    owners.map((o) => [o.fn.name, o.bytes]),
    [
      ["work", 400],
      ["idle", 200],
    ],
  );
});

test("waits get the blocked time that the kernel counted", () => {
  const waits = waitSums(data, all);
  assert.deepEqual(
    waits.map((w) => [w.ns, w.mutex, w.owner]),
    [
      [2e6, false, 0],
      [2e6, true, 8],
    ],
  );
  const half = waitSums(data, { ...all, range: { from: 1e6, to: 3e6 } });
  assert.deepEqual(
    half.map((w) => w.ns),
    [1e6],
  );
});

test("differences pair the functions of a program that has another name", () => {
  const [old, later] = [recording(), recording()];
  old.report.exe = "/old/app";
  later.report.exe = "/new/app-1.1";
  for (const fn of later.functions) if (fn.library === "app") fn.library = "app-1.1";
  assert.deepEqual(
    diffRows(old, later, "cpu").map((r) => [r.fn.name, r.before, r.after]),
    [
      ["work", 8, 8],
      ["idle", 2, 2],
    ],
  );
  const { root, before } = diffTree(old, later, "cpu", { reversed: false, ownOnly: false });
  assert.deepEqual(
    [...before].filter(([node, weight]) => node.weight !== weight),
    [],
  );
  assert.equal(root.weight, 10);
});

test("the state of a thread at a moment", () => {
  const busy = recording();
  busy.sampleNs = 1e6;
  busy.raw.queued = {
    unit_ns: 1000,
    from: [6000],
    length: [2000],
    thread: [8],
    run_ns: [0],
    queued_ns: [1.5e6],
  };
  busy.queued.from = Float64Array.of(6e6);
  busy.queued.to = Float64Array.of(8e6);
  assert.deepEqual(stateAt(busy, 8, 3.5e6), { text: "running work", stack: 2 });
  assert.equal(
    stateAt(busy, 8, 7e6).text,
    "not sampled; waited for a CPU for 1.50 ms of the 2.00 ms around it",
  );
  assert.deepEqual(stateAt(busy, 9, 7e6), { text: "not sampled", stack: 0 });
});

test("differences pair functions by name and library", () => {
  const later = recording();
  later.raw.samples.samples[2] = 7; // idle
  assert.deepEqual(
    diffRows(data, later, "cpu").map((r) => [r.fn.name, r.before, r.after]),
    [
      ["idle", 2, 7],
      ["work", 8, 8],
    ],
  );
  const { root, before } = diffTree(data, later, "cpu", { reversed: false, ownOnly: false });
  const idle = root.children[0].children.find((n) => n.fn!.name === "idle")!;
  assert.deepEqual([before.get(root), before.get(idle), idle.weight], [10, 2, 7]);
  assert.equal(changeOf(2, 7, 15), "more");
  assert.equal(changeOf(7, 2, 15), "less");
  assert.equal(changeOf(100, 104, 200), "same");
});

test("names are shown in their short form, and found by both", () => {
  const { raw } = recording();
  const strings = raw.strings.with(2, ["int work(std::span<int>)", "work"]);
  const named = new Data({ ...raw, strings });
  const [main, work] = named.functions;
  assert.deepEqual([main.name, main.short], ["main", "main"]);
  assert.deepEqual([work.name, work.short], ["int work(std::span<int>)", "work"]);
  assert.equal(named.text(2), work.name);
  assert.equal(named.short(work.name), "work");
  assert.equal(named.short("of no stack"), "of no stack");
  for (const text of ["^int work", "^work$"]) assert.ok(matches(work, compile(text)!));
});

test("search", () => {
  assert.equal(compile("("), null);
  assert.ok(matches(data.functions[1], compile("WOR".toLowerCase())!));
  assert.ok(!matches(data.functions[1], compile("WOR")!));
});

test("units", () => {
  assert.equal(duration(1234567), "1.23 ms");
  assert.equal(bytes(15300000), "15.3 MB");
  assert.equal(percent(1, 8), "12.5 %");
});

test("time in the queue for a CPU is where the thread was not seen", () => {
  const lane = () => ({
    running: new Float32Array(8),
    queued: new Float32Array(8),
    lock: new Float32Array(8),
    blocked: new Float32Array([1, 1, 1, 1, 0, 0, 0, 0]),
  });
  const sum = (l: { queued: Float32Array }) => l.queued.reduce((a, b) => a + b, 0);
  const fits = lane();
  spreadQueued(fits, 0, 10, 0, 80, 20);
  assert.deepEqual([...fits.queued], [0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5]);
  const half = lane(); /* the window is the second half of the time */
  spreadQueued(half, 0, 10, -80, 80, 20);
  assert.ok(Math.abs(sum(half) - 1) < 1e-6, String(half.queued));
  const more = lane();
  spreadQueued(more, 0, 10, 0, 80, 60);
  assert.ok(Math.abs(sum(more) - 6) < 1e-6, String(more.queued));
});

test("calls that began in a range, by function", () => {
  const data = recording();
  const sums = (filter: Filter) =>
    callSums(data, filter).map((s) => [s.fn.name, s.calls, s.selfNs, s.totalNs]);
  assert.deepEqual(sums(all), [
    ["main", 1, 3e6, 8e6],
    ["work", 2, 3e6, 5e6],
    ["idle", 1, 5e5, 5e5],
    ["sort", 1, 2e6, 2e6],
  ]);
  assert.deepEqual(sums({ ...all, range: { from: 2e6, to: 4.5e6 } }), [
    ["work", 1, 2e6, 4e6],
    ["sort", 1, 2e6, 2e6],
  ]);
  assert.deepEqual(sums({ ...all, tid: 8 }), [["idle", 1, 5e5, 5e5]]);
  assert.deepEqual(sums({ ...all, library: "libc.so.6" }), [["sort", 1, 2e6, 2e6]]);
});

test("the longest calls of a range, their callers and what they called", () => {
  const data = recording();
  const calls = longestCalls(data, { ...all, range: { from: 3e6, to: 7e6 } });
  assert.deepEqual(
    calls.map((c) => [c.fn.name, c.from, c.to, c.open]),
    [
      ["main", 1e6, 9e6, true],
      ["work", 4e6, 8e6, false],
      ["sort", 5e6, 7e6, false],
    ],
  );
  assert.deepEqual(
    callersOf(data, calls[2]).map((fn) => fn.name),
    ["work", "main"],
  );
  const [main] = nesting(data, 7, calls[0], calls[0]).children;
  assert.equal(main.weight, 8e6);
  assert.deepEqual(
    main.children.map((c) => [c.fn!.name, c.at, c.weight]),
    [
      ["work", 1e6, 1e6],
      ["work", 3e6, 4e6],
    ],
  );
  assert.deepEqual(
    main.children[1].children.map((c) => [c.fn!.name, c.at, c.weight]),
    [["sort", 1e6, 2e6]],
  );
});

test("a range cuts the calls of the time line", () => {
  const root = nesting(recording(), 7, { from: 5e6, to: 20e6 });
  assert.equal(root.weight, 15e6);
  assert.deepEqual(
    root.children.map((c) => [c.fn!.name, c.at, c.weight]),
    [
      ["main", 0, 4e6],
      ["idle", 5e6, 5e5],
    ],
  );
  assert.deepEqual(
    root.children[0].children.map((c) => [c.fn!.name, c.at, c.weight]),
    [["work", 0, 3e6]],
  );
});

test("weights by line", () => {
  const data = recording();
  const [file, ...others] = fileSums(data, cpuWeights(data, all));
  assert.equal(others.length, 0);
  assert.equal(file.total, 10);
  assert.deepEqual(
    [...file.lines].sort((a, b) => a[0] - b[0]),
    [
      [1, { self: 0, total: 10, inner: 0 }],
      [2, { self: 1, total: 5, inner: 5 }],
      [4, { self: 2, total: 2, inner: 2 }],
      [9, { self: 3, total: 3, inner: 3 }],
    ],
  );
});
