// SPDX-License-Identifier: MIT
//
// What the page says of waits and stalls.
import assert from "node:assert/strict";
import test from "node:test";
import { Data } from "../src/data";
import { marksOf } from "../src/marks";
import { waitTarget } from "../src/model";

test("a wait is for what the report says", () => {
  const wait = { call: "pthread_cond_wait", kind: "a condition variable", what: "", mutex: false };
  assert.equal(waitTarget({ ...wait, futex: "0x10" }), "a condition variable");
  assert.equal(waitTarget({ ...wait, futex: "queue+0x28" }), "a condition variable (queue+0x28)");
  assert.equal(waitTarget({ ...wait, futex: "queue", mutex: true }), "lock queue");
  assert.equal(waitTarget({ ...wait, kind: "", futex: "0x10" }), "0x10");
  assert.equal(waitTarget({ ...wait, kind: "", futex: "", what: "pipe:[7]" }), "pipe:[7]");
});

test("a stall tells how much of it the machine was busy", () => {
  const stall = { began_ns: 1e9, length_ns: 2e8, tid: 7, cause: "cpu" };
  const stalls = [
    { ...stall, total_ns: 2e8 },
    { ...stall, total_ns: 5e9 },
  ];
  const none = { ns: [], thread: [], name: [] };
  const data = {
    report: { stalls: { stalls } },
    raw: { marks: none, calls: none },
    short: (name: string) => name,
  } as unknown as Data;
  assert.deepEqual(
    marksOf(data).map((m) => [m.to, m.text]),
    [
      [1.2e9, "stall of 200 ms: cpu"],
      [6e9, "stall of 200 ms, 5.00 s with delays: cpu"],
    ],
  );
});
