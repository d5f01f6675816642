// SPDX-License-Identifier: MIT
//
// The state of each thread over time, for the lanes of the time line: per column of pixels, how much
// of the time it ran, waited for a CPU, waited for a lock, or was blocked for another reason.
import { Data, Thread } from "./data";
import { duration } from "./format";
import { WaitSum, WaitTarget, waitTarget, waitTargetAt } from "./model";

export const STATES = ["running", "queued", "lock", "blocked"] as const;
export type State = (typeof STATES)[number];

export const STATE_TEXT: Record<State, string> = {
  running: "running",
  queued: "waiting for a CPU",
  lock: "waiting for a lock",
  blocked: "blocked",
};

/** The shares of the states in each column. */
export type Lane = Record<State, Float32Array>;

/** Adds AMOUNT of time, evenly spread over [from, to), to COLUMNS of STEP nanoseconds from START. */
function spread(
  columns: Float32Array,
  start: number,
  step: number,
  from: number,
  to: number,
  amount: number,
) {
  const length = Math.max(to - from, 1);
  const first = Math.max(0, Math.floor((from - start) / step));
  const last = Math.min(columns.length - 1, Math.floor((to - start) / step));
  for (let c = first; c <= last; c++) {
    const low = Math.max(from, start + c * step);
    const high = Math.min(to, start + (c + 1) * step);
    const part = to > from ? Math.max(0, high - low) / length : 1;
    columns[c] += (amount * part) / step;
  }
}

/**
 * Adds AMOUNT of time in the queue for a CPU, which is known only for the whole of [from, to). A
 * thread does not wait for a CPU while it runs or is blocked, so the time goes where neither was
 * seen; what is more than that is spread evenly.
 */
export function spreadQueued(
  lane: Lane,
  start: number,
  step: number,
  from: number,
  to: number,
  amount: number,
) {
  const first = Math.max(0, Math.floor((from - start) / step));
  const last = Math.min(lane.queued.length - 1, Math.floor((to - start) / step));
  const inside = (c: number) =>
    Math.max(0, Math.min(to, start + (c + 1) * step) - Math.max(from, start + c * step)) / step;
  const free = (c: number) =>
    inside(c) * Math.max(0, 1 - lane.running[c] - lane.lock[c] - lane.blocked[c] - lane.queued[c]);
  let length = 0;
  let room = 0;
  for (let c = first; c <= last; c++) {
    length += inside(c);
    room += free(c);
  }
  const wanted = (amount * length) / Math.max(to - from, 1);
  const share = room > 0 ? Math.min(1, wanted / room) : 0;
  const rest = wanted - room * share;
  for (let c = first; c <= last; c++)
    lane.queued[c] += free(c) * share + (rest * inside(c)) / Math.max(length, 1e-9);
}

/** The lanes of all threads in the window [from, to), of COLUMNS columns. */
export function makeLanes(
  data: Data,
  from: number,
  to: number,
  columns: number,
): Map<number, Lane> {
  const lanes = new Map<number, Lane>();
  const step = (to - from) / columns;
  for (const { tid } of data.threads)
    lanes.set(tid, {
      running: new Float32Array(columns),
      queued: new Float32Array(columns),
      lock: new Float32Array(columns),
      blocked: new Float32Array(columns),
    });
  const { raw } = data;
  for (let i = 0; i < raw.samples.thread.length; i++) {
    const lane = lanes.get(raw.samples.thread[i]);
    const ns = raw.samples.samples[i] * data.sampleNs;
    const end = data.samples.from[i];
    if (lane && end >= from && end - ns < to) spread(lane.running, from, step, end - ns, end, ns);
  }
  for (let i = 0; i < raw.waits.thread.length; i++) {
    const lane = lanes.get(raw.waits.thread[i]);
    const low = data.waits.from[i];
    const high = data.waits.to[i];
    if (!lane || high < from || low >= to) continue;
    const mutex = raw.places.mutex[raw.waits.place[i]];
    spread(mutex ? lane.lock : lane.blocked, from, step, low, high, raw.waits.ns[i]);
  }
  for (let i = 0; i < raw.queued.thread.length; i++) {
    const lane = lanes.get(raw.queued.thread[i]);
    const low = data.queued.from[i];
    if (lane && raw.queued.queued_ns[i] > 0)
      spreadQueued(lane, from, step, low, data.queued.to[i], raw.queued.queued_ns[i]);
  }
  return lanes;
}

/** Threads with the most activity first: CPU time, then waits for locks. */
export function orderThreads(data: Data): Thread[] {
  const weight = new Map<number, number>();
  const { samples, waits, places } = data.raw;
  for (let i = 0; i < samples.thread.length; i++)
    weight.set(
      samples.thread[i],
      (weight.get(samples.thread[i]) ?? 0) + samples.samples[i] * data.sampleNs,
    );
  for (let i = 0; i < waits.thread.length; i++)
    if (places.mutex[waits.place[i]])
      weight.set(waits.thread[i], (weight.get(waits.thread[i]) ?? 0) + waits.ns[i]);
  const main = data.report.pid;
  return [...data.threads].sort((a, b) => {
    if (a.tid === main || b.tid === main) return a.tid === main ? -1 : 1;
    return (weight.get(b.tid) ?? 0) - (weight.get(a.tid) ?? 0) || a.tid - b.tid;
  });
}

/** What thread TID did at NS, in words, and where; stack 0: unknown. */
export function stateAt(data: Data, tid: number, ns: number): { text: string; stack: number } {
  const { samples, waits, places } = data.raw;
  for (let i = 0; i < samples.thread.length; i++) {
    const length = samples.samples[i] * data.sampleNs;
    const end = data.samples.from[i];
    if (samples.thread[i] !== tid || ns < end - length || ns >= end) continue;
    const fn = data.owner(samples.stack[i]);
    return { text: fn ? `running ${fn.short}` : "running", stack: samples.stack[i] };
  }
  for (let i = 0; i < waits.thread.length; i++) {
    if (waits.thread[i] !== tid || ns < data.waits.from[i] || ns >= data.waits.to[i]) continue;
    const p = waits.place[i];
    const fn = data.owner(places.stack[p]);
    const text = waitText(data, { ...waitTargetAt(data, p), owner: places.owner[p] });
    return { text: fn ? `${text}, in ${fn.short}` : text, stack: places.stack[p] };
  }
  return { text: `not sampled${queuedAround(data, tid, ns)}`, stack: 0 };
}

/** The time in the queue for a CPU is known only for the time between two readings. */
function queuedAround(data: Data, tid: number, ns: number): string {
  const { queued } = data.raw;
  for (let i = 0; i < queued.thread.length; i++) {
    const { from, to } = { from: data.queued.from[i], to: data.queued.to[i] };
    if (queued.thread[i] !== tid || ns < from || ns >= to || !queued.queued_ns[i]) continue;
    return `; waited for a CPU for ${duration(queued.queued_ns[i])} of the ${duration(to - from)} around it`;
  }
  return "";
}

/** "waits for the lock queue+0x28, held by worker 42". */
export function waitText(data: Data, w: WaitTarget & Pick<WaitSum, "owner">): string {
  if (w.mutex) {
    const held = w.owner ? `, held by ${data.threadName(w.owner)}` : "";
    return `waits for the lock ${w.futex}${held}`;
  }
  if (w.what) return `blocked in ${w.call} of ${w.what}`;
  if (w.kind) return `waits for ${waitTarget(w)}`;
  if (w.futex) return `blocked in ${w.call} at ${w.futex}`;
  return w.call ? `blocked in ${w.call}` : "blocked";
}
