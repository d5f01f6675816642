// SPDX-License-Identifier: MIT
//
// The main figures of a whole recording, as the report in the data has them: how much, and which function has most of it.
import { Data, Section } from "./data";
import { bytes, duration, percent, seconds } from "./format";

export interface Figure {
  key: "cpu" | "peak" | "leaked" | "locks";
  title: string;
  amount: string;
  most: string; // "": nothing has most of it
  name: string; // of the function, as a title; "": none
}

/** Of rows, the one with the largest value; undefined if all are 0. */
function largest(rows: Section[], value: (row: Section) => number): Section | undefined {
  let best: Section | undefined;
  for (const row of rows) if (value(row) > (best ? value(best) : 0)) best = row;
  return best;
}

function figure(
  data: Data,
  head: Pick<Figure, "key" | "title" | "amount">,
  row: Section | undefined,
  share: string,
): Figure {
  const name: string = row?.function ?? "";
  return { ...head, most: name && `${share} in ${data.short(name)}`, name };
}

/** The program's own functions stand for the libraries that they called. */
function cpu(data: Data): Figure | undefined {
  const { sample } = data.report;
  const ns = sample?.cpu_time?.cpu_ns;
  if (!ns || !sample.functions) return undefined;
  const own = largest(sample.functions, (f) => f.own);
  const row = own ?? largest(sample.functions, (f) => f.self);
  const share = percent(own?.own ?? row?.self ?? 0, sample.samples);
  return figure(data, { key: "cpu", title: "CPU time", amount: duration(ns) }, row, share);
}

function memory(data: Data, key: "peak" | "leaked"): Figure | undefined {
  const { malloc } = data.report;
  const part = key === "peak" ? "peak" : "live";
  const whole = malloc?.[part]?.bytes;
  if (!whole || !malloc.functions) return undefined;
  const row = largest(malloc.functions, (f) => f[part]?.bytes ?? 0);
  const when = key === "peak" && malloc.peak_ns ? `, at ${seconds(malloc.peak_ns, 1e7)} s` : "";
  const title = key === "peak" ? "Memory at the peak" : "Never freed";
  const share = percent(row?.[part].bytes ?? 0, whole);
  return figure(data, { key, title, amount: bytes(whole) + when }, row, share);
}

function locks(data: Data): Figure | undefined {
  const { waits } = data.report;
  const lock = waits?.locks?.[0];
  if (!waits?.lock_ns || !lock) return undefined;
  const holder = lock.owner_thread ? `, held most by ${lock.owner_thread}` : "";
  const share = percent(lock.time_ns, waits.lock_ns);
  const most = `${share} for ${lock.name ?? lock.variable ?? lock.lock}${holder}`;
  return {
    key: "locks",
    title: "Waited for locks",
    amount: duration(waits.lock_ns),
    most,
    name: "",
  };
}

export function glance(data: Data): Figure[] {
  return [cpu(data), memory(data, "peak"), memory(data, "leaked"), locks(data)].filter(
    (f): f is Figure => f !== undefined,
  );
}
