// SPDX-License-Identifier: MIT
//
// What the time line marks: stalls, markers of the user, audited calls, and the crash.
import { Data, Section } from "./data";
import { duration } from "./format";

export interface Mark {
  ns: number;
  to: number;
  tid: number; // 0: of the process
  kind: "stall" | "mark" | "call" | "crash";
  text: string;
}

export function marksOf(data: Data): Mark[] {
  const result: Mark[] = [];
  for (const s of data.report.stalls?.stalls ?? []) {
    const delays = s.total_ns > 1.1 * s.length_ns ? `, ${duration(s.total_ns)} with delays` : "";
    result.push({
      ns: s.began_ns,
      to: s.began_ns + s.total_ns,
      tid: s.tid,
      kind: "stall",
      text: `stall of ${duration(s.length_ns)}${delays}: ${data.short(s.hot_path?.function ?? s.cause)}`,
    });
  }
  const { marks, calls } = data.raw;
  for (let i = 0; i < marks.ns.length; i++)
    result.push({
      ns: marks.ns[i],
      to: marks.ns[i],
      tid: 0,
      kind: "mark",
      text: `marker ${data.text(marks.name[i])}`,
    });
  for (let i = 0; i < calls.ns.length; i++)
    result.push({
      ns: calls.ns[i],
      to: calls.ns[i],
      tid: calls.thread[i],
      kind: "call",
      text: `audited call of ${data.text(calls.name[i])}`,
    });
  const crash: Section = data.report.crash;
  if (crash?.signal)
    result.push({ ns: crash.time_ns, to: crash.time_ns, tid: 0, kind: "crash", text: crash.cause });
  return result;
}

/** The marks at most NEAR nanoseconds away. */
export function marksAt(marks: Mark[], ns: number, near: number): Mark[] {
  return marks.filter((m) => m.ns - near <= ns && ns <= m.to + near);
}
