// SPDX-License-Identifier: MIT
//
// Stalls: each with its cause, its tree and the threads that held it up.
import { useMemo } from "preact/hooks";
import { Section } from "./data";
import { stalls, stallWeights } from "./findings";
import { duration, percent, seconds } from "./format";
import { Filter, withLibrary } from "./model";
import { Frames, ViewProps } from "./names";
import { Table } from "./table";
import { TreeView } from "./tree_view";

export function StallsView(props: ViewProps & { filter: Filter }) {
  const { data, filter, pattern } = props;
  const hot = (s: Section) => s.hot_path?.function ?? "";
  const rows = useMemo(
    () =>
      stalls(data, filter).filter((s) => !pattern || pattern.test(hot(s)) || pattern.test(s.cause)),
    [data, filter, pattern],
  );
  const whole = rows.reduce((sum, s) => sum + s.length_ns, 0);
  const delayed = rows.some((s) => s.total_ns > 1.1 * s.length_ns);
  return (
    <>
      <p class="sum">
        <span id="stall-count">{rows.length}</span> stalls, {duration(whole)} in all
        {delayed && ", without the time in which the machine was busy with other work"}
      </p>
      <Table
        caption="Stalls, in the order of time"
        rows={rows}
        name={(s) => `stall ${s.number}`}
        detail={(s) => <Detail {...props} stall={s} />}
        columns={[
          {
            title: "length",
            number: true,
            cell: (s) => duration(s.length_ns),
            value: (s) => s.length_ns,
            share: (s) => s.length_ns / whole,
          },
          {
            title: "with delays",
            number: true,
            cell: (s) => duration(s.total_ns),
            value: (s) => s.total_ns,
          },
          {
            title: "began",
            number: true,
            cell: (s) => `${seconds(s.began_ns)} s`,
            value: (s) => s.began_ns,
          },
          { title: "thread", cell: (s) => data.threadName(s.tid), value: (s) => s.tid },
          { title: "cause", cell: (s) => s.cause, value: (s) => s.cause },
          {
            title: "function",
            cell: (s) => (
              <span class="name own" title={hot(s)}>
                {data.short(hot(s))}
              </span>
            ),
            value: hot,
          },
          {
            title: "share",
            number: true,
            cell: (s) => (s.share !== undefined ? percent(s.share, 1) : ""),
            value: (s) => s.share ?? 0,
          },
          { title: "call", cell: (s) => [s.call, s.what].filter(Boolean).join(" of ") },
        ]}
      />
    </>
  );
}

const PARTS = [
  ["on_cpu_ns", "on a CPU"],
  ["waiting_for_cpu_ns", "waiting for a CPU"],
  ["lock_ns", "waiting for a lock"],
  ["blocked_ns", "blocked, locks included"],
  ["uninterruptible_ns", "uninterruptible"],
  ["disk_faults_ns", "waiting for pages from the disk"],
] as const;

function Detail(props: ViewProps & { filter: Filter; stall: Section }) {
  const { data, filter, stall } = props;
  const weights = useMemo(
    () => withLibrary(data, stallWeights(data, stall.number), filter.library),
    [data, stall, filter.library],
  );
  return (
    <>
      <ul class="facts">
        {PARTS.filter(([key]) => stall.why?.[key] > 0).map(([key, text]) => (
          <li key={key}>
            {text}: {duration(stall.why[key])}
          </li>
        ))}
        {(stall.locks ?? []).map((l: Section, i: number) => (
          <li key={i}>
            {data.threadName(l.waiter)} waits for a lock of {data.threadName(l.owner)}
            {l.deadlock ? " (deadlock)" : ""}
          </li>
        ))}
      </ul>
      {weights.size > 0 ? (
        <TreeView
          {...props}
          weights={weights}
          form="icicle"
          amount={duration}
          label={`Time of stall ${stall.number} by call`}
        />
      ) : (
        <Frames data={data} frames={stall.frames} />
      )}
    </>
  );
}
