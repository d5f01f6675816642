// SPDX-License-Identifier: MIT
//
// Traced calls: by function, with a histogram of their durations, and the slowest calls.
import { Section } from "./data";
import { count, duration, place, seconds, shortName } from "./format";
import { ViewProps } from "./names";
import { Table } from "./table";

interface Bucket {
  at_least_ns: number;
  calls: number;
}

/** Bars of the number of calls, on a logarithmic scale, by duration. */
function Histogram({ buckets }: { buckets: Bucket[] }) {
  if (!buckets.length) return null;
  const most = Math.log1p(Math.max(...buckets.map((b) => b.calls)));
  const text = buckets
    .map((b) => `${count(b.calls)} of at least ${duration(b.at_least_ns)}`)
    .join(", ");
  return (
    <svg class="histogram" width={buckets.length * 7} height="18" role="img" aria-label={text}>
      <title>{text}</title>
      {buckets.map((b, i) => {
        const height = b.calls ? Math.max(1, (16 * Math.log1p(b.calls)) / most) : 0;
        return <rect key={i} x={i * 7} y={18 - height} width="6" height={height} />;
      })}
    </svg>
  );
}

/** Fills the gaps between the recorded classes, so that bars have one scale. */
function dense(buckets: Bucket[]): Bucket[] {
  const result: Bucket[] = [];
  for (const b of buckets) {
    for (let last = result[result.length - 1]; last; last = result[result.length - 1]) {
      const next = last.at_least_ns ? last.at_least_ns * 2 : 2;
      if (next >= b.at_least_ns) break;
      result.push({ at_least_ns: next, calls: 0 });
    }
    result.push(b);
  }
  return result;
}

export function CallsView({ data, pattern }: ViewProps) {
  const trace: Section = data.report.trace;
  const wanted = (f: Section) => !pattern || pattern.test(f.function ?? "");
  const functions: Section[] = (trace.functions ?? []).filter(wanted);
  const slowest: Section[] = (trace.slowest ?? []).filter(wanted);
  const name = (f: Section) => <span class="name">{shortName(f.function ?? "?")}</span>;
  return (
    <>
      <p class="sum">
        <span id="call-count">{count(trace.calls)}</span> calls of the whole recording
        {trace.lost ? `; ${count(trace.lost)} events were lost` : ""}
      </p>
      <Table
        caption="Calls by function"
        rows={functions}
        sort={2}
        name={(f) => f.function}
        columns={[
          { title: "function", cell: name, value: (f) => f.function ?? "" },
          { title: "calls", number: true, cell: (f) => count(f.calls), value: (f) => f.calls },
          {
            title: "self",
            number: true,
            cell: (f) => duration(f.self_ns),
            value: (f) => f.self_ns,
          },
          {
            title: "total",
            number: true,
            cell: (f) => duration(f.total_ns),
            value: (f) => f.total_ns,
          },
          {
            title: "mean",
            number: true,
            cell: (f) => (f.mean_ns === undefined ? "" : duration(f.mean_ns)),
            value: (f) => f.mean_ns ?? 0,
          },
          {
            title: "longest",
            number: true,
            cell: (f) => duration(f.worst_ns),
            value: (f) => f.worst_ns,
          },
          { title: "durations", cell: (f) => <Histogram buckets={dense(f.histogram ?? [])} /> },
          { title: "place", cell: (f) => place(f.file ?? "", f.line ?? 0, f.module ?? "") },
        ]}
      />
      <Table
        caption="The slowest calls"
        rows={slowest}
        name={(f) => f.function}
        columns={[
          {
            title: "took",
            number: true,
            cell: (c) => duration(c.took_ns) + (c.open ? " or more" : ""),
            value: (c) => c.took_ns,
          },
          { title: "function", cell: name, value: (c) => c.function ?? "" },
          {
            title: "began",
            number: true,
            cell: (c) => `${seconds(c.start_ns, 1e3)} s`,
            value: (c) => c.start_ns,
          },
          { title: "thread", cell: (c) => data.threadName(c.tid), value: (c) => c.tid },
        ]}
      />
    </>
  );
}
