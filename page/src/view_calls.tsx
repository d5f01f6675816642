// SPDX-License-Identifier: MIT
//
// Traced calls: by function, the slowest ones with what they called, and all in the order of time.
import { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Call, callersOf, CallSum, callSums, longestCalls, nesting } from "./calls";
import { Section } from "./data";
import { Flame } from "./flame";
import { count, duration, place, seconds } from "./format";
import { Filter, isWhole, matches } from "./model";
import { Choice, FunctionName, Place, ViewProps } from "./names";
import { Column, Table } from "./table";

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

type Form = "table" | "slowest" | "time";

const FORMS = [
  ["table", "Functions"],
  ["slowest", "Slowest calls"],
  ["time", "In order of time"],
] as const;

type Props = ViewProps & { filter: Filter };

export function CallsView(props: Props) {
  const { data, filter } = props;
  const trace: Section = data.report.trace;
  const [form, setForm] = useState<Form>("table");
  const sums = useMemo(() => callSums(data, filter), [data, filter]);
  const whole = isWhole(filter.range) && !filter.tid && !filter.library;
  const calls = whole ? trace.shown : sums.reduce((sum, s) => sum + s.calls, 0);
  return (
    <>
      <div class="bar">
        <Choice label="Form" values={FORMS} value={form} onChange={setForm} />
        <p class="sum">
          <span id="call-count">{count(calls)}</span> traced calls
          {whole ? "" : " began in the selection"}
          {trace.lost ? `; ${count(trace.lost)} events were lost` : ""}
        </p>
      </div>
      {form === "slowest" ? (
        <Slowest {...props} />
      ) : form === "time" ? (
        <InTime {...props} />
      ) : (
        <Functions
          caption={whole ? "Calls by function" : "Calls that began in the selection, by function"}
          rows={whole ? ofReport(props, sums) : ofSums(props, sums)}
        />
      )}
    </>
  );
}

interface Row {
  name: string;
  file: string;
  calls: number;
  selfNs: number;
  totalNs: number;
  text: ComponentChildren; // of the name
  place: ComponentChildren;
  report?: Section; // what is known of the whole recording alone
}

/** Of the whole recording, as the report has them. */
function ofReport({ data, pattern, ownOnly }: Props, sums: CallSum[]): Row[] {
  const functions: Section[] = data.report.trace.functions ?? [];
  const own = new Set(sums.filter((s) => s.fn.own).map((s) => s.fn.name));
  return functions
    .filter((f) => !ownOnly || own.has(f.function ?? ""))
    .filter((f) => !pattern || pattern.test(f.function ?? ""))
    .map((f) => ({
      name: f.function ?? "",
      file: f.file ?? "",
      calls: f.calls,
      selfNs: f.self_ns,
      totalNs: f.total_ns,
      text: (
        <span class="name" title={f.function}>
          {data.short(f.function ?? "?")}
        </span>
      ),
      place: place(f.file ?? "", f.line ?? 0, f.module ?? ""),
      report: f,
    }));
}

function ofSums(props: Props, sums: CallSum[]): Row[] {
  return sums
    .filter((s) => (!props.ownOnly || s.fn.own) && (!props.pattern || matches(s.fn, props.pattern)))
    .map((s) => ({
      ...s,
      name: s.fn.name,
      file: s.fn.file,
      text: <FunctionName fn={s.fn} />,
      place: <Place {...props} fn={s.fn} />,
    }));
}

const FIRST_COLUMNS: Column<Row>[] = [
  { title: "function", cell: (r) => r.text, value: (r) => r.name },
  { title: "calls", number: true, cell: (r) => count(r.calls), value: (r) => r.calls },
  { title: "self", number: true, cell: (r) => duration(r.selfNs), value: (r) => r.selfNs },
  { title: "total", number: true, cell: (r) => duration(r.totalNs), value: (r) => r.totalNs },
];

const WHOLE_COLUMNS: Column<Row>[] = [
  {
    title: "mean",
    number: true,
    cell: (r) => (r.report?.mean_ns === undefined ? "" : duration(r.report.mean_ns)),
    value: (r) => r.report?.mean_ns ?? 0,
  },
  {
    title: "longest",
    number: true,
    cell: (r) => duration(r.report?.worst_ns),
    value: (r) => r.report?.worst_ns,
  },
  { title: "durations", cell: (r) => <Histogram buckets={dense(r.report?.histogram ?? [])} /> },
];

function Functions({ caption, rows }: { caption: string; rows: Row[] }) {
  return (
    <Table
      caption={caption}
      rows={rows}
      name={(r) => r.name}
      columns={[
        ...FIRST_COLUMNS,
        ...(rows[0]?.report ? WHOLE_COLUMNS : []),
        { title: "place", cell: (r) => r.place, value: (r) => r.file },
      ]}
    />
  );
}

/** The longest calls that were running in the range. */
function Slowest(props: Props) {
  const { data, filter, pattern, ownOnly } = props;
  const rows = useMemo(() => longestCalls(data, filter), [data, filter]);
  return (
    <Table
      caption="The slowest calls that ran in the selection"
      rows={rows.filter((c) => (!ownOnly || c.fn.own) && (!pattern || matches(c.fn, pattern)))}
      name={(c) => c.fn.name}
      detail={(c) => <Nested {...props} call={c} />}
      columns={[
        {
          title: "took",
          number: true,
          cell: (c) => duration(c.to - c.from) + (c.open ? " or more" : ""),
          value: (c) => c.to - c.from,
        },
        { title: "function", cell: (c) => <FunctionName fn={c.fn} />, value: (c) => c.fn.short },
        {
          title: "began",
          number: true,
          cell: (c) => `${seconds(c.from, 1e3)} s`,
          value: (c) => c.from,
        },
        { title: "thread", cell: (c) => data.threadName(c.tid), value: (c) => c.tid },
        { title: "place", cell: (c) => <Place {...props} fn={c.fn} />, value: (c) => c.fn.file },
      ]}
    />
  );
}

/** What is known of calls that are too short for the list. */
function Limit({ data }: Pick<Props, "data">) {
  const shown = data.spans.from.length;
  if (shown >= data.report.trace.shown) return null;
  let least = Infinity;
  for (let i = 0; i < shown; i++) least = Math.min(least, data.spans.to[i] - data.spans.from[i]);
  return (
    <p class="dim">
      Of {count(data.report.trace.shown)} calls, the {count(shown)} longest are shown: those of{" "}
      {duration(least)} or more.
    </p>
  );
}

/** A call with those that it made, each at its place in time. */
function Nested({ data, call, pattern }: Props & { call: Call }) {
  const root = useMemo(() => nesting(data, call.tid, call, call), [data, call]);
  const callers = callersOf(data, call);
  return (
    <>
      {callers.length > 0 && (
        <p>
          called by{" "}
          {callers.map((fn, i) => (
            <>
              {i > 0 && ", called by "}
              <FunctionName key={i} fn={fn} />
            </>
          ))}
        </p>
      )}
      <Flame
        data={data}
        root={root}
        up={false}
        amount={duration}
        pattern={pattern}
        label={`Calls made by ${call.fn.name}`}
      />
      <Limit data={data} />
    </>
  );
}

/** Of one thread: calls of several are not nested. */
function InTime({ data, filter, pattern }: Props) {
  const busiest = useMemo(() => {
    const sums = new Map<number, number>();
    const { thread, self, ns } = data.raw.call_sums;
    thread.forEach((t, i) => sums.set(t, (sums.get(t) ?? 0) + self[i] * ns[i]));
    return [...sums.entries()].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
  }, [data]);
  const tid = filter.tid || busiest;
  const root = useMemo(() => {
    const to = Math.min(filter.range.to, data.durationNs);
    return nesting(data, tid, { from: filter.range.from, to });
  }, [data, filter, tid]);
  return (
    <>
      <p class="dim">
        {data.threadName(tid)}
        {filter.tid ? "" : ", the thread with the most time in traced calls"}. Gaps are times
        without a traced call.
      </p>
      <Flame
        data={data}
        root={root}
        up={false}
        amount={duration}
        pattern={pattern}
        label="Traced calls in the order of time"
      />
      <Limit data={data} />
    </>
  );
}
