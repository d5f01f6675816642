// SPDX-License-Identifier: MIT
//
// The axis of the time line: its steps, the bins to which a selection snaps, and the places of labels.
import { Data } from "./data";
import { Range } from "./model";

/** A round step of the axis: 1, 2 or 5 times a power of ten. */
export function axisStep(length: number, columns: number): number {
  const least = length / Math.max(1, columns / 90);
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((f) => f * power).find((s) => s >= least) ?? 10 * power;
}

/**
 * The time of an event is known as a step of its table. All steps are microseconds times a power of two, so a border of
 * the largest steps is one of all.
 */
export function binNs(data: Data): number {
  const { samples, waits, blocks, call_sums } = data.raw;
  const steps = [samples, waits, blocks, call_sums].map((t) => (t.from.length ? t.unit_ns : 1000));
  return Math.max(...steps);
}

/** The range between borders of bins next to RANGE: at least one bin. A range beyond the end has no end. */
export function snap(range: Range, bin: number, durationNs: number): Range {
  const last = Math.floor(durationNs / bin) * bin;
  const from = Math.min(last, Math.max(0, Math.round(range.from / bin) * bin));
  const to = Math.max(from + bin, Math.round(Math.min(range.to, durationNs) / bin) * bin);
  return { from, to: range.to >= durationNs || to > durationNs ? Infinity : to };
}

/** The end of the bin of a moment. */
export function momentEnd(ns: number, bin: number, durationNs: number): number {
  return Math.min(durationNs, (Math.floor(ns / bin) + 1) * bin);
}

/** Where a text that is WIDE begins beside X: right of it if it ends before HIGH, else left, but not left of LOW. */
export function labelLeft(x: number, wide: number, low: number, high: number): number {
  const gap = 7;
  if (x + gap + wide <= high) return x + gap;
  return Math.max(low, Math.min(x - gap, high) - wide);
}
