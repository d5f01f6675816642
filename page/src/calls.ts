// SPDX-License-Identifier: MIT
//
// Traced calls: by function in a range, the longest ones, and how these were nested. A call belongs to the range in
// which it began.
import { Data, Fn } from "./data";
import { Filter, Range, TreeNode } from "./model";

export interface CallSum {
  fn: Fn;
  calls: number;
  selfNs: number;
  /** A recursive call counts once. */
  totalNs: number;
}

/** One of the longest calls. */
export interface Call {
  fn: Fn;
  node: number;
  tid: number;
  from: number;
  to: number;
  open: boolean; // it did not return
}

function fnOf(data: Data, node: number): Fn {
  return data.functions[data.frameFn[data.raw.call_nodes.frame[node]]];
}

export function callSums(data: Data, filter: Filter): CallSum[] {
  const sums = new Map<number, CallSum>();
  const { thread, node, self, calls, ns } = data.raw.call_sums;
  const { from } = data.callSums;
  for (let i = 0; i < from.length; i++) {
    if (from[i] < filter.range.from || from[i] >= filter.range.to) continue;
    if (filter.tid && thread[i] !== filter.tid) continue;
    const fn = fnOf(data, node[i]);
    if (filter.library && fn.library !== filter.library) continue;
    let sum = sums.get(fn.id);
    if (!sum) sums.set(fn.id, (sum = { fn, calls: 0, selfNs: 0, totalNs: 0 }));
    if (self[i]) sum.selfNs += ns[i];
    else sum.calls += calls[i];
    if (!self[i] && !data.raw.call_nodes.recursive[node[i]]) sum.totalNs += ns[i];
  }
  return [...sums.values()].sort(
    (a, b) => Number(b.fn.own) - Number(a.fn.own) || b.totalNs - a.totalNs,
  );
}

function call(data: Data, i: number): Call {
  const { node, thread, open } = data.raw.spans;
  return {
    fn: fnOf(data, node[i]),
    node: node[i],
    tid: thread[i],
    from: data.spans.from[i],
    to: data.spans.to[i],
    open: open[i] === 1,
  };
}

/** The longest calls that were running in the range, the longest first. */
export function longestCalls(data: Data, filter: Filter): Call[] {
  const found: Call[] = [];
  for (let i = 0; i < data.spans.from.length; i++) {
    const one = call(data, i);
    if (one.from >= filter.range.to) continue;
    if (one.from < filter.range.from && one.to <= filter.range.from) continue;
    if (filter.tid && one.tid !== filter.tid) continue;
    if (!filter.library || one.fn.library === filter.library) found.push(one);
  }
  return found.sort((a, b) => b.to - b.from - (a.to - a.from) || a.from - b.from);
}

/** The functions through which the call was made, from the innermost caller. */
export function callersOf(data: Data, one: Call): Fn[] {
  const { parent } = data.raw.call_nodes;
  const result: Fn[] = [];
  for (let n = parent[one.node]; n; n = parent[n]) result.push(fnOf(data, n));
  return result;
}

function isBelow(data: Data, node: number, above: number): boolean {
  /* A node has a larger number than its parent. */
  while (node > above) node = data.raw.call_nodes.parent[node];
  return node === above;
}

/** The longest calls of a thread in WITHIN as a tree, each at its place in time. */
export function nesting(data: Data, tid: number, within: Range, top?: Call): TreeNode {
  const root: TreeNode = { fn: null, frame: 0, weight: 0, self: 0, children: [] };
  root.weight = within.to - within.from;
  const open: { node: number; from: number; to: number; tree: TreeNode }[] = [];
  const { node, thread } = data.raw.spans;
  const { from, to } = data.spans;
  for (let i = 0; i < from.length; i++) {
    if (thread[i] !== tid || from[i] >= within.to || to[i] <= within.from) continue;
    if (top && !isBelow(data, node[i], top.node)) continue;
    const low = Math.max(from[i], within.from);
    const high = Math.min(to[i], within.to);
    const last = () => open[open.length - 1];
    while (
      last() &&
      (low >= last().to || !isBelow(data, data.raw.call_nodes.parent[node[i]], last().node))
    )
      open.pop();
    const outer = last() ?? { from: within.from, tree: root };
    const tree: TreeNode = {
      fn: fnOf(data, node[i]),
      frame: data.raw.call_nodes.frame[node[i]],
      weight: high - low,
      self: 0,
      at: low - outer.from,
      children: [],
    };
    outer.tree.children.push(tree);
    open.push({ node: node[i], from: low, to: high, tree });
  }
  return root;
}
