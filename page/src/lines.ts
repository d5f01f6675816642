// SPDX-License-Identifier: MIT
//
// Weights by line of the source. A line counts once in a stack.
import { Data, MARKER } from "./data";
import { Weights } from "./model";

export interface LineSum {
  self: number; // of stacks whose innermost function is there
  total: number;
  inner: number; // of stacks in which no function of this file is further in
}

export interface FileSum {
  file: number; // of the texts
  own: boolean; // has functions of the program itself
  total: number;
  lines: Map<number, LineSum>;
}

/** The files of the stacks, those of the program first, the largest part first. */
export function fileSums(data: Data, weights: Weights): FileSum[] {
  const sums = new Map<number, FileSum>();
  const { file, line, flags } = data.raw.frames;
  for (const [stack, weight] of weights) {
    const files = new Set<number>();
    const lines = new Set<string>();
    let innermost = true;
    for (let n = stack; n; n = data.parent[n]) {
      const frame = data.frame[n];
      if (flags[frame] & MARKER) continue;
      const self = innermost ? weight : 0;
      innermost = false;
      if (!file[frame] || !line[frame]) continue;
      const sum = fileSum(sums, file[frame]);
      if (flags[frame] & 1) sum.own = true;
      let at = sum.lines.get(line[frame]);
      if (!at) sum.lines.set(line[frame], (at = { self: 0, total: 0, inner: 0 }));
      at.self += self;
      if (!files.has(sum.file)) {
        sum.total += weight;
        at.inner += weight;
      }
      files.add(sum.file);
      const key = `${file[frame]}:${line[frame]}`;
      if (!lines.has(key)) at.total += weight;
      lines.add(key);
    }
  }
  return [...sums.values()].sort(
    (a, b) => Number(b.own) - Number(a.own) || b.total - a.total || a.file - b.file,
  );
}

function fileSum(sums: Map<number, FileSum>, file: number): FileSum {
  let sum = sums.get(file);
  if (!sum) sums.set(file, (sum = { file, own: false, total: 0, lines: new Map() }));
  return sum;
}
