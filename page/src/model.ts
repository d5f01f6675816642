// SPDX-License-Identifier: MIT
//
// What the views show, as pure functions of the data, a range of time and a filter.
import { Data, Fn, MARKER, UNKNOWN } from "./data";

/** Nanoseconds; the end is not part of it. The whole recording is [0, Infinity). */
export interface Range {
  from: number;
  to: number;
}

export interface Filter {
  range: Range;
  tid: number; // 0: all threads
  library: string; // "": all
}

export const WHOLE: Range = { from: 0, to: Infinity };

export function isWhole(range: Range): boolean {
  return range.from <= 0 && range.to === Infinity;
}

/** Weights by stack. */
export type Weights = Map<number, number>;

function add(to: Weights, stack: number, weight: number) {
  if (weight) to.set(stack, (to.get(stack) ?? 0) + weight);
}

/** Weights that are made of many parts: an array of all stacks is faster than a map. */
class Sums {
  private readonly sums: Float64Array;
  private readonly stacks: number[] = []; // in the order in which they came

  constructor(data: Data) {
    this.sums = new Float64Array(data.parent.length);
  }

  add(stack: number, weight: number) {
    if (!weight) return;
    if (!this.sums[stack]) this.stacks.push(stack);
    this.sums[stack] += weight;
  }

  weights(): Weights {
    return new Map(this.stacks.map((stack) => [stack, this.sums[stack]]));
  }
}

export function total(weights: Weights): number {
  let sum = 0;
  for (const w of weights.values()) sum += w;
  return sum;
}

/** Keeps the stacks with a function of LIBRARY. */
export function withLibrary(data: Data, weights: Weights, library: string): Weights {
  if (!library) return weights;
  const kept: Weights = new Map();
  for (const [stack, w] of weights)
    if (data.stackFunctions(stack).some((f) => f.library === library)) kept.set(stack, w);
  return kept;
}

/** The part of [from, to) that is in RANGE, 0 to 1. */
function share(range: Range, from: number, to: number): number {
  if (to <= from) return from >= range.from && from < range.to ? 1 : 0;
  const inside = Math.min(to, range.to) - Math.max(from, range.from);
  return inside > 0 ? inside / (to - from) : 0;
}

/** Samples of CPU time by stack. */
export function cpuWeights(data: Data, filter: Filter): Weights {
  const sums = new Sums(data);
  const { thread, stack, samples } = data.raw.samples;
  const { from } = data.samples;
  for (let i = 0; i < from.length; i++) {
    if (from[i] < filter.range.from || from[i] >= filter.range.to) continue;
    if (filter.tid && thread[i] !== filter.tid) continue;
    sums.add(stack[i], samples[i]);
  }
  return withLibrary(data, sums.weights(), filter.library);
}

// ---- functions ---------------------------------------------------------------------------------

export interface FunctionSum {
  fn: Fn;
  self: number;
  total: number;
  /** With the libraries that it called, up to the next function of the program. */
  own: number;
}

/** As src/tool/report/functions.c: a function counts once in a stack. */
export function functionSums(data: Data, weights: Weights): FunctionSum[] {
  const sums: (FunctionSum | undefined)[] = new Array(data.functions.length);
  const seen = new Int32Array(data.functions.length);
  let stacks = 0;
  for (const [stack, weight] of weights) {
    stacks++;
    let innermost = true;
    let innermostOwn = true;
    for (let n = stack; n; n = data.parent[n]) {
      const frame = data.frame[n];
      const flags = data.raw.frames.flags[frame];
      if (flags & MARKER) continue;
      const id = data.frameFn[frame];
      const sum = (sums[id] ??= { fn: data.functions[id], self: 0, total: 0, own: 0 });
      if (innermost) sum.self += weight;
      innermost = false;
      if (flags & 1 && innermostOwn) sum.own += weight;
      if (flags & 1) innermostOwn = false;
      if (seen[id] !== stacks) sum.total += weight;
      seen[id] = stacks;
    }
  }
  return sums.filter((s): s is FunctionSum => s !== undefined);
}

// ---- trees -------------------------------------------------------------------------------------

export interface TreeNode {
  fn: Fn | null; // null: the root
  frame: number; // the first of its frames, for the line
  weight: number;
  self: number;
  children: TreeNode[];
  at?: number; // where it begins in its parent; undefined: behind the child before it
  byFn?: Map<number, TreeNode>;
}

function newNode(fn: Fn | null, frame: number): TreeNode {
  return { fn, frame, weight: 0, self: 0, children: [] };
}

function child(data: Data, parent: TreeNode, frame: number): TreeNode {
  const id = data.frameFn[frame];
  parent.byFn ??= new Map();
  let node = parent.byFn.get(id);
  if (!node) {
    node = newNode(data.functionOf(frame), frame);
    parent.byFn.set(id, node);
    parent.children.push(node);
  }
  return node;
}

export interface TreeOptions {
  reversed: boolean;
  ownOnly: boolean;
}

/** The frames of a stack, from the outermost; reversed from the innermost. Frame 0 stands for those of an unknown
 * stack. */
function path(data: Data, stack: number, options: TreeOptions): number[] {
  const frames: number[] = stack || options.ownOnly ? [] : [0];
  for (let n = stack; n; n = data.parent[n]) {
    const frame = data.frame[n];
    if (options.ownOnly && !data.functions[data.frameFn[frame]].own) continue;
    frames.push(frame);
  }
  return options.reversed ? frames : frames.reverse();
}

function sortTree(root: TreeNode) {
  const open = [root];
  for (let node = open.pop(); node; node = open.pop()) {
    node.children.sort((a, b) => b.weight - a.weight);
    node.byFn = undefined;
    open.push(...node.children);
  }
}

/** All stacks as one tree by function, the largest part first. */
export function mergedTree(data: Data, weights: Weights, options: TreeOptions): TreeNode {
  const root = newNode(null, 0);
  for (const [stack, weight] of weights) {
    let node = root;
    root.weight += weight;
    for (const frame of path(data, stack, options)) {
      node = child(data, node, frame);
      node.weight += weight;
    }
    node.self += weight;
  }
  sortTree(root);
  return root;
}

/** Samples in the order of time: a call that goes on is one node. */
export function timeTree(data: Data, filter: Filter, options: TreeOptions): TreeNode {
  const root = newNode(null, 0);
  const { thread, stack, samples } = data.raw.samples;
  const { from } = data.samples;
  for (let i = 0; i < from.length; i++) {
    if (from[i] < filter.range.from || from[i] >= filter.range.to) continue;
    if (filter.tid && thread[i] !== filter.tid) continue;
    const frames = path(data, stack[i], { ...options, reversed: false });
    if (filter.library && !frames.some((f) => libraryOf(data, f) === filter.library)) continue;
    addInTime(data, root, frames, samples[i]);
  }
  return root;
}

function libraryOf(data: Data, frame: number): string {
  return data.functionOf(frame).library;
}

function addInTime(data: Data, root: TreeNode, frames: number[], weight: number) {
  let node = root;
  root.weight += weight;
  for (const frame of frames) {
    const last = node.children[node.children.length - 1];
    const fn = data.functionOf(frame);
    /* Where the stack ended in the caller itself, its callee has ended. */
    if (last && last.fn === fn && !node.self) {
      node = last;
    } else {
      const next = newNode(fn, frame);
      node.self = 0;
      node.children.push(next);
      node = next;
    }
    node.weight += weight;
  }
  node.self += weight;
}

// ---- memory ------------------------------------------------------------------------------------

export type MemoryMode = "peak" | "live" | "leaked" | "allocated" | "kept" | "temporary";

export interface Amounts {
  bytes: Weights;
  blocks: Weights;
}

/** Of a whole recording, exact: the figures of `sonde report`. */
function totalsOf(data: Data, mode: MemoryMode): Amounts {
  const t = data.raw.block_totals;
  const columns: Partial<Record<MemoryMode, [number[], number[]]>> = {
    peak: [t.peak_bytes, t.peak],
    leaked: [t.live_bytes, t.live],
    kept: [t.live_bytes, t.live],
    allocated: [t.allocated_bytes, t.allocated],
  };
  const [bytes, blocks] = columns[mode] ?? [t.allocated_bytes, t.allocated];
  const result: Amounts = { bytes: new Map(), blocks: new Map() };
  for (let i = 0; i < t.stack.length; i++) {
    add(result.bytes, t.stack[i], bytes[i]);
    add(result.blocks, t.stack[i], blocks[i]);
  }
  return result;
}

function isExact(mode: MemoryMode, filter: Filter): boolean {
  return isWhole(filter.range) && !filter.tid && mode !== "live" && mode !== "temporary";
}

/** The moment is in nanoseconds; only "live" uses it. */
export function memoryAmounts(
  data: Data,
  filter: Filter,
  mode: MemoryMode,
  moment: number,
): Amounts {
  let result: Amounts;
  if (mode === "peak" || isExact(mode, filter)) result = totalsOf(data, mode);
  else result = blocksIn(data, filter, mode, moment);
  return {
    bytes: withLibrary(data, result.bytes, filter.library),
    blocks: withLibrary(data, result.blocks, filter.library),
  };
}

function blocksIn(data: Data, filter: Filter, mode: MemoryMode, moment: number): Amounts {
  const result: Amounts = { bytes: new Map(), blocks: new Map() };
  const { thread, stack, temporary, blocks_256, bytes } = data.raw.blocks;
  const { from, to } = data.blocks;
  const { range } = filter;
  for (let i = 0; i < from.length; i++) {
    if (filter.tid && thread[i] !== filter.tid) continue;
    const born = from[i] >= range.from && from[i] < range.to;
    const end = range.to;
    const wanted =
      mode === "live"
        ? from[i] <= moment && to[i] > moment
        : born &&
          (mode === "allocated" ||
            (mode === "kept" && (to[i] >= end || to[i] === Infinity)) ||
            (mode === "leaked" && to[i] === Infinity) ||
            (mode === "temporary" && temporary[i] === 1));
    if (!wanted) continue;
    add(result.bytes, stack[i], bytes[i]);
    add(result.blocks, stack[i], blocks_256[i] / 256);
  }
  return result;
}

export interface OwnerSum {
  fn: Fn;
  bytes: number;
  blocks: number;
  stacks: number;
}

/** By the function that owns the stack: the innermost of the program, as in the report. */
export function byOwner(data: Data, amounts: Amounts): OwnerSum[] {
  const sums = new Map<number, OwnerSum>();
  for (const [stack, bytes] of amounts.bytes) {
    const fn = data.owner(stack) ?? UNKNOWN;
    let sum = sums.get(fn.id);
    if (!sum) sums.set(fn.id, (sum = { fn, bytes: 0, blocks: 0, stacks: 0 }));
    sum.bytes += bytes;
    sum.blocks += amounts.blocks.get(stack) ?? 0;
    sum.stacks++;
  }
  return [...sums.values()].sort((a, b) => b.bytes - a.bytes);
}

// ---- waits -------------------------------------------------------------------------------------

export interface WaitSum {
  tid: number;
  call: string; // what the program called
  kind: string; // "a condition variable"; "": unknown, or no futex
  what: string;
  futex: string;
  owner: number; // tid; 0: unknown
  mutex: boolean;
  ns: number;
  samples: number;
  stack: number; // where the thread waited longest
  stackNs: number;
}

export type WaitTarget = Pick<WaitSum, "call" | "kind" | "what" | "futex" | "mutex">;

/** What a thread waits for, in the words of the report: "a condition variable (queue+0x28)". An address that has no name
 * tells nobody anything where the kind is known. */
export function waitTarget(w: WaitTarget): string {
  if (w.mutex) return `lock ${w.futex}`;
  if (w.what || !w.kind) return w.what || w.futex;
  return w.futex.startsWith("0x") || !w.futex ? w.kind : `${w.kind} (${w.futex})`;
}

export function waitTargetAt(data: Data, place: number): WaitTarget {
  const { call, kind, what, futex, mutex } = data.raw.places;
  return {
    call: data.text(call[place]),
    kind: data.text(kind[place]),
    what: data.text(what[place]),
    futex: data.text(futex[place]),
    mutex: mutex[place] === 1,
  };
}

/** How much blocked time a nanosecond between samples of a thread stands for: the kernel counts the
 * former, and the sampler may be late. */
export function waitFactors(data: Data): Map<number, number> {
  const sampled = new Map<number, number>();
  const { thread, ns } = data.raw.waits;
  for (let i = 0; i < thread.length; i++)
    sampled.set(thread[i], (sampled.get(thread[i]) ?? 0) + ns[i]);
  const factors = new Map<number, number>();
  for (const t of data.report.wall?.threads ?? []) {
    const known = sampled.get(t.tid);
    if (known) factors.set(t.tid, t.blocked_ns / known);
  }
  return factors;
}

/** Calls VISIT with each wait of the filter and the time in nanoseconds that it represents. */
function eachWait(
  data: Data,
  filter: Filter,
  visit: (i: number, place: number, ns: number, part: number) => void,
) {
  const factors = waitFactors(data);
  const { thread, place, ns } = data.raw.waits;
  const { from, to } = data.waits;
  for (let i = 0; i < from.length; i++) {
    if (filter.tid && thread[i] !== filter.tid) continue;
    const part = share(filter.range, from[i], to[i]);
    if (part) visit(i, place[i], ns[i] * part * (factors.get(thread[i]) ?? 1), part);
  }
}

export function waitWeights(data: Data, filter: Filter): Weights {
  const weights: Weights = new Map();
  eachWait(data, filter, (_, place, ns) => add(weights, data.raw.places.stack[place], ns));
  return withLibrary(data, weights, filter.library);
}

export function waitSums(data: Data, filter: Filter): WaitSum[] {
  const { places, waits } = data.raw;
  const sums = new Map<string, WaitSum & { stacks: Weights }>();
  const targets: WaitTarget[] = [];
  eachWait(data, filter, (i, p, ns, part) => {
    const tid = waits.thread[i];
    const target = (targets[p] ??= waitTargetAt(data, p));
    const key = [tid, target.call, waitTarget(target), places.owner[p]].join("\n");
    let sum = sums.get(key);
    if (!sum) {
      sum = {
        tid,
        ...target,
        owner: places.owner[p],
        ns: 0,
        samples: 0,
        stack: 0,
        stackNs: 0,
        stacks: new Map(),
      };
      sums.set(key, sum);
    }
    sum.ns += ns;
    sum.samples += waits.samples[i] * part;
    add(sum.stacks, places.stack[p], ns);
  });
  const kept = [...sums.values()].filter(
    (s) =>
      !filter.library ||
      [...s.stacks.keys()].some((k) =>
        data.stackFunctions(k).some((f) => f.library === filter.library),
      ),
  );
  for (const sum of kept)
    for (const [stack, ns] of sum.stacks)
      if (ns > sum.stackNs) {
        sum.stack = stack;
        sum.stackNs = ns;
      }
  return kept.sort((a, b) => b.ns - a.ns);
}

// ---- resources ---------------------------------------------------------------------------------

type Unit = "bytes" | "ns" | "";

/** Key, name, unit, and whether it is a level: others only grow. */
const RESOURCES: [string, string, Unit, boolean][] = [
  ["rss_bytes", "resident memory", "bytes", true],
  ["anonymous_bytes", "resident memory, not from files", "bytes", true],
  ["swap_bytes", "swap", "bytes", true],
  ["descriptors", "descriptors", "", true],
  ["threads", "threads", "", true],
  ["user_ns", "user CPU time", "ns", false],
  ["system_ns", "system CPU time", "ns", false],
  ["minor_faults", "minor page faults", "", false],
  ["major_faults", "major page faults", "", false],
  ["voluntary_switches", "waits", "", false],
  ["involuntary_switches", "preemptions", "", false],
];

export interface Resource {
  key: string;
  name: string;
  unit: Unit;
  isLevel: boolean;
  first: number;
  last: number;
  peak: number;
  points: { ns: number; value: number }[]; // inside the range
}

/** What was read of the process in the range: the values that held at its ends, and the largest. */
export function resources(data: Data, range: Range): Resource[] {
  const rows: Resource[] = [];
  for (const [key, name, unit, isLevel] of RESOURCES) {
    const series = data.report.usage?.[key];
    if (!series?.peak) continue;
    const points: [number, number][] = series.points ?? [];
    const row = { key, name, unit, isLevel, points: [] as Resource["points"] };
    let { first, last, peak } = series;
    /* The kernel knows the largest resident memory between readings, too. */
    if (key === "rss_bytes") peak = Math.max(peak, data.report.usage.peak_rss_bytes?.peak ?? 0);
    if (!isWhole(range)) last = points[0]?.[1] ?? first;
    if (!isWhole(range)) first = peak = last;
    for (const [ns, value] of points) {
      if (ns >= range.from && ns < range.to) row.points.push({ ns, value });
      if (isWhole(range) || ns >= range.to) continue;
      if (ns < range.from) first = peak = value;
      peak = Math.max(peak, value);
      last = value;
    }
    rows.push({ ...row, first, last, peak });
  }
  return rows;
}

// ---- search ------------------------------------------------------------------------------------

/** null: the text is no regular expression. */
export function compile(text: string): RegExp | null {
  try {
    return new RegExp(text, /[A-Z]/.test(text) ? "" : "i");
  } catch {
    return null;
  }
}

export function matches(fn: Fn, pattern: RegExp): boolean {
  return [fn.name, fn.short, fn.library, fn.file].some((text) => pattern.test(text));
}
