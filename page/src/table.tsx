// SPDX-License-Identifier: MIT
//
// A table that is sorted by a click on a heading and shows its rows in steps of a hundred.
import { ComponentChildren } from "preact";
import { useEffect, useState } from "preact/hooks";
import { count } from "./format";

const STEP = 100;

export interface Column<Row> {
  title: string;
  cell: (row: Row) => ComponentChildren;
  /** Numbers are sorted from the largest. */
  value?: (row: Row) => number | string;
  number?: boolean;
  /** 0 to 1: a bar behind the number. */
  share?: (row: Row) => number;
}

interface Props<Row> {
  caption: string;
  rows: Row[];
  columns: Column<Row>[];
  /** The column that sorts at first; -1: the order of the rows. */
  sort?: number;
  detail?: (row: Row) => ComponentChildren;
  name: (row: Row) => string; // of a row, for screen readers
}

export function Table<Row>({ caption, rows, columns, sort = -1, detail, name }: Props<Row>) {
  const [by, setBy] = useState(sort);
  const [turned, setTurned] = useState(false);
  const [most, setMost] = useState(STEP);
  const [open, setOpen] = useState<Row | null>(null);
  useEffect(() => setOpen(null), [rows]);

  const sorted = [...rows];
  const value = columns[by]?.value;
  if (value)
    sorted.sort((a, b) => {
      const left = value(a);
      const right = value(b);
      const order =
        typeof left === "number"
          ? (right as number) - left
          : String(left).localeCompare(String(right));
      return turned ? -order : order;
    });
  const choose = (i: number) => {
    setTurned(i === by ? !turned : false);
    setBy(i);
  };
  const order = (i: number) => {
    if (i !== by) return undefined;
    const falling = columns[i].number ? !turned : turned;
    return falling ? "descending" : "ascending";
  };
  const kind = (c: Column<Row>, i: number) =>
    `${c.number ? "number" : ""}${detail && i === 0 ? " opens" : ""}`;
  return (
    <div class="table">
      <div class="scroll" tabIndex={0} role="region" aria-label={caption}>
        <table>
          <caption>{caption}</caption>
          <thead>
            <tr>
              {columns.map((c, i) => (
                <th key={i} scope="col" class={kind(c, i)} aria-sort={order(i)}>
                  {c.value ? (
                    <button type="button" onClick={() => choose(i)}>
                      {c.title}
                    </button>
                  ) : (
                    c.title
                  )}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted.slice(0, most).map((row, r) => [
              <tr key={r}>
                {columns.map((c, i) => (
                  <td key={i} class={kind(c, i)}>
                    {c.share && (
                      <span
                        class="share"
                        style={{ width: `${Math.min(1, c.share(row)) * 100}%` }}
                      />
                    )}
                    {i === 0 && detail ? (
                      <button
                        type="button"
                        class="open"
                        aria-expanded={open === row}
                        aria-label={`Details of ${name(row)}`}
                        onClick={() => setOpen(open === row ? null : row)}
                      >
                        {open === row ? "▾" : "▸"}
                      </button>
                    ) : null}
                    <span class="cell">{c.cell(row)}</span>
                  </td>
                ))}
              </tr>,
              detail && open === row ? (
                <tr key={`${r} detail`} class="detail">
                  <td colSpan={columns.length}>{detail(row)}</td>
                </tr>
              ) : null,
            ])}
          </tbody>
        </table>
      </div>
      {rows.length === 0 && <p class="empty">Nothing in this range.</p>}
      {sorted.length > most && (
        <button type="button" onClick={() => setMost(most + STEP)}>
          Show {count(Math.min(STEP, sorted.length - most))} more of {count(sorted.length)}
        </button>
      )}
    </div>
  );
}
