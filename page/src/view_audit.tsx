// SPDX-License-Identifier: MIT
//
// Audited calls, by the library or package that is responsible for them, with their arguments.
import { Section } from "./data";
import { count, seconds } from "./format";
import { Filter } from "./model";
import { Frames, ViewProps } from "./names";
import { Table } from "./table";

export function AuditView({ data, filter, pattern }: ViewProps & { filter: Filter }) {
  const audit: Section = data.report.audit;
  const rows: Section[] = (audit.findings ?? []).filter(
    (f: Section) =>
      f.first_ns < filter.range.to &&
      f.last_ns >= filter.range.from &&
      (!filter.tid || f.tid === filter.tid) &&
      (!pattern ||
        [f.function, f.arguments, f.owner, f.category].some((t) => t && pattern.test(t))),
  );
  return (
    <>
      <p class="sum">
        <span id="audit-count">{count(rows.length)}</span> findings,{" "}
        {count(rows.reduce((sum, f) => sum + f.calls, 0))} calls
      </p>
      <Table
        caption="Audited calls by owner"
        rows={rows}
        sort={0}
        name={(f) => `${f.function} of ${f.owner}`}
        detail={(f) => <Frames frames={f.frames} />}
        columns={[
          { title: "owner", cell: (f) => f.owner, value: (f) => f.owner ?? "" },
          { title: "level", cell: (f) => f.level, value: (f) => f.level ?? "" },
          { title: "category", cell: (f) => f.category, value: (f) => f.category ?? "" },
          {
            title: "call",
            cell: (f) => (
              <code class="name">
                {f.function}({f.arguments})
              </code>
            ),
            value: (f) => f.function ?? "",
          },
          { title: "calls", number: true, cell: (f) => count(f.calls), value: (f) => f.calls },
          {
            title: "first",
            number: true,
            cell: (f) => `${seconds(f.first_ns)} s`,
            value: (f) => f.first_ns,
          },
          { title: "allowed", cell: (f) => f.allowed ?? f.too_early ?? "" },
        ]}
      />
    </>
  );
}
