// SPDX-License-Identifier: MIT
//
// Differences of two recordings, as pure functions. Functions are the same if their name and library are. The program
// itself may have another name in each: app-1.0 and app-1.1.
import { Data, Fn } from "./data";
import {
  byOwner,
  cpuWeights,
  Filter,
  memoryAmounts,
  MemoryMode,
  mergedTree,
  TreeNode,
  TreeOptions,
  Weights,
  WHOLE,
} from "./model";

export type DiffMeasure = "cpu" | Extract<MemoryMode, "peak" | "allocated" | "leaked">;

export interface DiffRow {
  fn: Fn;
  before: number;
  after: number;
}

const ALL: Filter = { range: WHOLE, tid: 0, library: "" };

/** Samples of CPU time, or bytes. */
export function diffWeights(data: Data, measure: DiffMeasure): Weights {
  return measure === "cpu" ? cpuWeights(data, ALL) : memoryAmounts(data, ALL, measure, 0).bytes;
}

function keyOf(data: Data, fn: Fn): string {
  const exe: string = data.report.exe ?? "";
  const program = exe.slice(exe.lastIndexOf("/") + 1);
  return `${fn.name}\n${fn.library === program ? "" : fn.library}`;
}

/** By the function that owns a stack, the largest change first. */
export function diffRows(old: Data, data: Data, measure: DiffMeasure): DiffRow[] {
  const rows = new Map<string, DiffRow>();
  const add = (from: Data, side: "before" | "after") => {
    for (const sum of byOwner(from, { bytes: diffWeights(from, measure), blocks: new Map() })) {
      const key = keyOf(from, sum.fn);
      let row = rows.get(key);
      if (!row) rows.set(key, (row = { fn: sum.fn, before: 0, after: 0 }));
      row[side] += sum.bytes;
    }
  };
  add(data, "after");
  add(old, "before");
  return [...rows.values()].sort(
    (a, b) => Math.abs(b.after - b.before) - Math.abs(a.after - a.before),
  );
}

/** The tree of the new recording, and what each of its nodes weighed in the old one. */
export function diffTree(
  old: Data,
  data: Data,
  measure: DiffMeasure,
  options: TreeOptions,
): { root: TreeNode; before: Map<TreeNode, number> } {
  const root = mergedTree(data, diffWeights(data, measure), options);
  const before = new Map<TreeNode, number>();
  const pair = (node: TreeNode, other: TreeNode | undefined) => {
    before.set(node, other?.weight ?? 0);
    const children = new Map(other?.children.map((c) => [keyOf(old, c.fn!), c]));
    for (const child of node.children) pair(child, children.get(keyOf(data, child.fn!)));
  };
  pair(root, mergedTree(old, diffWeights(old, measure), options));
  return { root, before };
}

/** What a change is: a twentieth, or less than a thousandth of the whole, is none. */
export function changeOf(before: number, after: number, whole: number): "more" | "less" | "same" {
  const change = after - before;
  if (Math.abs(change) <= Math.max(before, after) / 20 || Math.abs(change) < whole / 1000)
    return "same";
  return change > 0 ? "more" : "less";
}
