// SPDX-License-Identifier: MIT
//
// Audited calls, by the library or package that is responsible for them, with their arguments.
import { Section } from "./data";
import { AuditCalls, auditCalls, auditResults, findings } from "./findings";
import { count, seconds } from "./format";
import { Filter } from "./model";
import { Frames, ViewProps } from "./names";
import { Table } from "./table";

/** "12"; "1 to 11 of 12" of calls whose times are known for the first and the last one alone. */
function callsText({ least, most, all }: AuditCalls): string {
  if (least === most) return count(most);
  return `${count(least)} to ${count(most)}${most < all ? ` of ${count(all)}` : ""}`;
}

export function AuditView(props: ViewProps & { filter: Filter }) {
  const { data, filter, pattern, ownOnly } = props;
  const rows = findings(data, filter, ownOnly).filter(
    (f: Section) =>
      !pattern || [f.function, f.arguments, f.owner, f.category].some((t) => t && pattern.test(t)),
  );
  const sums = rows.map((f) => auditCalls(f, filter.range));
  const sum: AuditCalls = {
    least: sums.reduce((n, s) => n + s.least, 0),
    most: sums.reduce((n, s) => n + s.most, 0),
    all: sums.reduce((n, s) => n + s.all, 0),
  };
  return (
    <>
      <p class="sum">
        <span id="audit-count">{count(rows.length)}</span> findings, {callsText(sum)} calls
      </p>
      <Table
        caption="Audited calls by owner"
        rows={rows}
        sort={0}
        name={(f) => `${f.function} of ${f.owner}`}
        detail={(f) => <Frames data={data} frames={f.frames} />}
        columns={[
          { title: "owner", cell: (f) => f.owner, value: (f) => f.owner ?? "" },
          { title: "level", cell: (f) => f.level, value: (f) => f.level ?? "" },
          { title: "category", cell: (f) => f.category, value: (f) => f.category ?? "" },
          {
            title: "call",
            cell: (f) => (
              <code class="name" title={f.function}>
                {data.short(f.function ?? "")}({f.arguments})
              </code>
            ),
            value: (f) => f.function ?? "",
          },
          {
            title: "calls",
            number: true,
            cell: (f) => callsText(auditCalls(f, filter.range)),
            value: (f) => auditCalls(f, filter.range).most,
          },
          { title: "result", cell: (f) => auditResults(f) },
          {
            title: "first",
            number: true,
            cell: (f) => `${seconds(f.first_ns)} s`,
            value: (f) => f.first_ns,
          },
          ...(rows.some((f) => f.allowed ?? f.too_early)
            ? [{ title: "allowed", cell: (f: Section) => f.allowed ?? f.too_early ?? "" }]
            : []),
        ]}
      />
    </>
  );
}
