// SPDX-License-Identifier: MIT
//
// The resources of the process: memory, descriptors, threads, CPU time, page faults and switches, in the range.
import { useMemo } from "preact/hooks";
import { Data } from "./data";
import { bytes, count, duration } from "./format";
import { Filter, isWhole, Range, Resource, resources } from "./model";
import { Table } from "./table";

const WIDTH = 160;
const HEIGHT = 20;

function amount(r: Resource, value: number): string {
  if (r.unit === "bytes") return bytes(value);
  return r.unit === "ns" ? duration(value) : count(value);
}

function change(r: Resource, by: number): string {
  return by ? (by < 0 ? "−" : "+") + amount(r, Math.abs(by)) : "";
}

/** Each value holds until the next one. A sum starts at 0. */
function Curve({ r, range, end }: { r: Resource; range: Range; end: number }) {
  const from = Math.max(0, range.from);
  const to = Math.min(range.to, end);
  const least = r.isLevel ? 0 : r.first;
  const most = Math.max(r.isLevel ? r.peak : r.last, least + 1);
  const x = (ns: number) => (((ns - from) / Math.max(to - from, 1)) * WIDTH).toFixed(1);
  const y = (value: number) => (HEIGHT - ((value - least) / (most - least)) * HEIGHT).toFixed(1);
  let path = `M0 ${y(r.first)}`;
  for (const p of r.points) path += `H${x(p.ns)}V${y(p.value)}`;
  return (
    <svg class="curve" viewBox={`0 -1 ${WIDTH} ${HEIGHT + 2}`} aria-hidden="true">
      <path d={`${path}H${WIDTH}`} />
    </svg>
  );
}

export function UsageView({ data, filter }: { data: Data; filter: Filter }) {
  const rows = useMemo(() => resources(data, filter.range), [data, filter.range]);
  return (
    <Table
      caption={`Resources of the process${isWhole(filter.range) ? "" : ", in the range"}`}
      rows={rows}
      name={(r) => r.name}
      columns={[
        {
          title: "resource",
          cell: (r) => (
            <span data-key={r.key} data-first={r.first} data-last={r.last} data-peak={r.peak}>
              {r.name}
            </span>
          ),
        },
        { title: "at the start", number: true, cell: (r) => amount(r, r.first) },
        { title: "at the end", number: true, cell: (r) => amount(r, r.last) },
        {
          title: "change",
          number: true,
          cell: (r) => change(r, r.last - r.first),
        },
        { title: "peak", number: true, cell: (r) => (r.isLevel ? amount(r, r.peak) : "") },
        {
          title: "over time",
          cell: (r) => <Curve r={r} range={filter.range} end={data.durationNs} />,
        },
      ]}
    />
  );
}
