// SPDX-License-Identifier: MIT
//
// The page of `sonde query`: the answer's rows, filtered by text, with the frames of each row's stack.
import { useState } from "preact/hooks";
import { bytes, count, duration, percent } from "./format";
import { Frames } from "./names";
import { Column, Table } from "./table";

type Unit = "text" | "count" | "ns" | "bytes" | "percent" | "number";
type Cell = string | number | null;

/** What sonde writes; docs/json.md has the rows of each question. */
export interface AnswerData {
  query: string;
  store: string;
  columns: { name: string; unit: Unit }[];
  rows: Cell[][];
  /** The short forms of the names of functions, where they differ. */
  short: Record<string, string>;
  /** The frames of a stack, by its id, from the innermost. */
  stacks: Record<string, Record<string, string | number>[]>;
}

function cellText(cell: Cell, unit: Unit): string {
  if (cell === null) return "–";
  if (typeof cell === "string") return cell;
  if (unit === "ns") return cell < 0 ? `−${duration(-cell)}` : duration(cell);
  if (unit === "bytes") return bytes(cell);
  if (unit === "percent") return percent(cell, 1);
  return Number.isInteger(cell) ? count(cell) : cell.toPrecision(6);
}

function columnsOf({ columns, rows, short }: AnswerData): Column<Cell[]>[] {
  const isUnitWord = (name: string) => name === "unit";
  return columns.flatMap(({ name, unit }, i): Column<Cell[]>[] => {
    if (isUnitWord(name) || rows.every((row) => row[i] === "")) return [];
    const isNumber = unit !== "text";
    const most = rows.reduce((max, row) => Math.max(max, Number(row[i]) || 0), 0);
    const hasBar = (unit === "ns" || unit === "bytes") && most > 0;
    return [
      {
        title: name.replaceAll("_", " "),
        number: isNumber,
        cell: (row) =>
          name === "function" ? (
            <code class="name" title={String(row[i])}>
              {short[String(row[i])] ?? row[i]}
            </code>
          ) : (
            cellText(row[i], unit)
          ),
        value: (row) => row[i] ?? (isNumber ? -Infinity : ""),
        share: hasBar ? (row) => Math.max(0, Number(row[i]) / most) : undefined,
      },
    ];
  });
}

export function Answer({ data }: { data: AnswerData }) {
  const [text, setText] = useState("");
  const wanted = text.toLowerCase();
  const rows = wanted
    ? data.rows.filter((row) => row.some((cell) => String(cell).toLowerCase().includes(wanted)))
    : data.rows;
  const stack = data.columns.findIndex((column) => column.name === "stack");
  const framesOf = (row: Cell[]) => data.stacks[String(row[stack])];
  const shown = stack < 0 ? Object.values(data.stacks)[0] : undefined;
  const hasFrames = stack >= 0 && data.rows.some((row) => framesOf(row));
  return (
    <>
      <header>
        <h1>
          {data.query} <span class="brand">sonde</span>
        </h1>
        <p class="dim">{data.store}</p>
      </header>
      <main>
        {shown && <Frames frames={shown} />}
        <div class="filters">
          <input
            type="search"
            aria-label="Rows that contain"
            placeholder="Rows that contain…"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <span class="sum">
            <span id="answer-count">{count(rows.length)}</span> of {count(data.rows.length)} rows
          </span>
        </div>
        <Table
          caption={`Answer to ${data.query}`}
          rows={rows}
          columns={columnsOf(data)}
          name={(row) => `row ${data.rows.indexOf(row) + 1}`}
          detail={hasFrames ? (row) => <Frames frames={framesOf(row)} /> : undefined}
        />
      </main>
    </>
  );
}
