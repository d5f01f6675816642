// SPDX-License-Identifier: MIT
//
// What a range, a thread and a library leave of stalls and of findings of the audit.
import assert from "node:assert/strict";
import test from "node:test";
import { Data, Section } from "../src/data";
import {
  auditCalls,
  auditResults,
  findings,
  libraries,
  stalls,
  stallWeights,
} from "../src/findings";
import { Filter, WHOLE } from "../src/model";

const finding = (name: string, module: string, tid: number, times: [number, number, number]) => ({
  function: name,
  module: `/usr/lib/${module}`,
  tid,
  calls: times[0],
  first_ns: times[1],
  last_ns: times[2],
  frames: [{ function: name, module: "/usr/lib/libc.so.6" }],
});

const report: Section = {
  exe: "/usr/bin/app",
  duration_ns: 100,
  audit: {
    findings: [
      finding("open", "app", 7, [5, 10, 50]),
      finding("connect", "libnet.so", 8, [1, 30, 30]),
      finding("write", "libnet.so", 8, [2, 5, 90]),
    ],
  },
  stalls: {
    stalls: [
      { number: 1, tid: 7, began_ns: 10, total_ns: 20, frames: [] },
      { number: 2, tid: 8, began_ns: 60, total_ns: 20, frames: [{ module: "/lib/libdisk.so" }] },
    ],
  },
};
const none = { from: [], thread: [], stack: [], unit_ns: 1000 };
const data = {
  report,
  functions: [{ library: "app", own: true }, { library: "libown.so", own: true }, { library: "" }],
  raw: { stall_stacks: [[1, 3, 5, 4, 6, 3, 2], [2]], samples: none },
  stackFunctions: (stack: number) => [{ library: stack === 3 ? "libc.so.6" : "app" }],
} as unknown as Data;

const filter = (changes: Partial<Filter>): Filter => ({
  range: WHOLE,
  tid: 0,
  library: "",
  ...changes,
});
const kept = (changes: Partial<Filter>, own = false) =>
  findings(data, filter(changes), own).map((f) => f.function);
const stalled = (changes: Partial<Filter>) => stalls(data, filter(changes)).map((s) => s.number);

test("a finding counts the calls that a range has for sure, and those that it may have", () => {
  const calls = (from: number, to: number) =>
    report.audit.findings.map((f: Section) => {
      const { least, most } = auditCalls(f, { from, to });
      return [least, most];
    });
  assert.deepEqual(calls(0, Infinity), [
    [5, 5],
    [1, 1],
    [2, 2],
  ]);
  assert.deepEqual(calls(0, 40), [
    [1, 4],
    [1, 1],
    [1, 1],
  ]);
  assert.deepEqual(calls(20, 40), [
    [0, 3],
    [1, 1],
    [0, 0],
  ]);
  assert.deepEqual(calls(50.5, 60), [
    [0, 0],
    [0, 0],
    [0, 0],
  ]);
  assert.deepEqual(calls(10, 10.1)[0], [1, 4]);
});

test("findings are those of the range, the thread, the library and the program", () => {
  assert.deepEqual(kept({}), ["open", "connect", "write"]);
  assert.deepEqual(kept({ range: { from: 20, to: 40 } }), ["open", "connect"]);
  assert.deepEqual(kept({ range: { from: 95, to: Infinity } }), []);
  assert.deepEqual(kept({ tid: 8 }), ["connect", "write"]);
  assert.deepEqual(kept({ library: "libnet.so" }), ["connect", "write"]);
  assert.deepEqual(kept({ library: "libc.so.6" }), ["open", "connect", "write"]);
  assert.deepEqual(kept({}, true), ["open"]);
});

test("stalls are those of the range, the thread and the library", () => {
  assert.deepEqual(
    [...stallWeights(data, 1)],
    [
      [3, 7],
      [4, 6],
    ],
  );
  assert.deepEqual(stalled({}), [1, 2]);
  assert.deepEqual(stalled({ range: { from: 0, to: 60 } }), [1]);
  assert.deepEqual(stalled({ range: { from: 29, to: 61 } }), [1, 2]);
  assert.deepEqual(stalled({ range: { from: 30, to: 60 } }), []);
  assert.deepEqual(stalled({ tid: 8 }), [2]);
  assert.deepEqual(stalled({ library: "libdisk.so" }), [2]);
  assert.deepEqual(stalled({ library: "libc.so.6" }), [1]);
});

test("the field of libraries has those of the audit and of stalls", () => {
  const names = ["app", "libc.so.6", "libdisk.so", "libnet.so", "libown.so"];
  assert.deepEqual(libraries(data), names);
});

test("results of calls in words", () => {
  const text = (results?: Section) => auditResults({ results });
  assert.equal(text(), "");
  assert.equal(text({ succeeded: 3, failed: 0, value: 5 }), "returned 5");
  assert.equal(text({ succeeded: 3, failed: 0 }), "succeeded");
  assert.equal(
    text({ succeeded: 3, failed: 2, errors: [{ errno: 2, name: "ENOENT", calls: 2 }] }),
    "3 succeeded, 2 failed: ENOENT",
  );
  assert.equal(
    text({ succeeded: 0, failed: 2, errors: [{ errno: 513, calls: 2 }] }),
    "failed: error 513",
  );
});
