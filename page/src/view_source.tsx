// SPDX-License-Identifier: MIT
//
// Source files with the CPU time, memory or blocked time of each line.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { bytes, count, duration, percent } from "./format";
import { FileSum, fileSums } from "./lines";
import { cpuWeights, Filter, isWhole, memoryAmounts, total, waitWeights, Weights } from "./model";
import { Choice, ViewProps } from "./names";

type Measure = "cpu" | "memory" | "waits";

const TITLES: [Measure, string][] = [
  ["cpu", "CPU time"],
  ["memory", "Memory"],
  ["waits", "Waits"],
];

/** A place that was chosen in another view. */
export interface SourcePlace {
  file: number;
  line: number;
}

type Props = ViewProps & { filter: Filter; place: SourcePlace | null };

export function SourceView(props: Props) {
  const { data, filter, place } = props;
  const has: Record<Measure, boolean> = {
    cpu: data.raw.samples.from.length > 0,
    memory: data.raw.block_totals.stack.length > 0,
    waits: data.raw.waits.from.length > 0,
  };
  const measures = TITLES.filter(([m]) => has[m]);
  const [measure, setMeasure] = useState<Measure>(measures[0]?.[0] ?? "cpu");
  const weights = useMemo((): Weights => {
    if (measure === "cpu") return cpuWeights(data, filter);
    if (measure === "waits") return waitWeights(data, filter);
    return memoryAmounts(data, filter, isWhole(filter.range) ? "peak" : "allocated", 0).bytes;
  }, [data, filter, measure]);
  const files = useMemo(
    () => fileSums(data, weights).filter((f) => data.sources.has(f.file)),
    [data, weights],
  );
  const [chosen, setChosen] = useState<number | null>(place?.file ?? null);
  const all = [...data.sources.keys()];
  const file = chosen ?? files[0]?.file ?? all[0];
  const sum = files.find((f) => f.file === file) ?? {
    file,
    own: false,
    total: 0,
    lines: new Map(),
  };
  const rest = all.filter((f) => !files.some((s) => s.file === f));
  const whole = total(weights);
  const amount = (n: number) =>
    measure === "cpu" ? duration(n * data.sampleNs) : measure === "memory" ? bytes(n) : duration(n);
  const what = {
    cpu: "CPU time",
    memory: isWhole(filter.range) ? "memory live at the peak" : "memory allocated in the range",
    waits: "blocked time",
  }[measure];
  const name = (f: number) => data.text(f);
  return (
    <>
      <div class="bar">
        {measures.length > 1 && (
          <Choice label="Measure" values={measures} value={measure} onChange={setMeasure} />
        )}
        <label class="file">
          File{" "}
          <select
            id="source-file"
            value={String(file)}
            onChange={(e) => setChosen(Number((e.target as HTMLSelectElement).value))}
          >
            {files.map((f) => (
              <option key={f.file} value={String(f.file)}>
                {percent(f.total, whole)} {name(f.file)}
              </option>
            ))}
            {rest.map((f) => (
              <option key={f} value={String(f)}>
                {name(f)}
              </option>
            ))}
          </select>
        </label>
      </div>
      <Listing
        {...props}
        key={`${file} ${measure}`}
        sum={sum}
        whole={whole}
        amount={amount}
        what={what}
        line={place && place.file === file ? place.line : 0}
      />
    </>
  );
}

interface ListingProps extends Props {
  sum: FileSum;
  whole: number;
  amount: (n: number) => string;
  what: string;
  line: number; // to show; 0: the one with most time
}

function Listing({ data, sum, whole, amount, what, line, pattern }: ListingProps) {
  const source = data.sources.get(sum.file)!;
  const scroll = useRef<HTMLDivElement>(null);
  const target = useMemo(() => {
    if (line) return line;
    let best = 0;
    let most = 0;
    for (const [number, { inner }] of sum.lines) if (inner > most) [best, most] = [number, inner];
    return best;
  }, [sum, line]);
  useEffect(() => {
    const row = scroll.current?.querySelector<HTMLElement>(`[data-line="${target}"]`);
    if (row) scroll.current!.scrollTop = row.offsetTop - scroll.current!.clientHeight / 3;
  }, [sum.file, target]);
  const hasSelf = [...sum.lines.values()].some((l) => l.self > 0);
  const number = (part: number) => (part ? amount(part) : "");
  const rows = source.lines.map((l, i) => {
    const at = sum.lines.get(l.number);
    const before = source.lines[i - 1];
    const found = pattern && pattern.test(l.text);
    const kind = `${l.number === target ? "target" : ""}${found ? " found" : ""}`;
    return [
      before && before.number + 1 !== l.number ? (
        <tr key={`${l.number} gap`} class="gap">
          <td colSpan={hasSelf ? 5 : 4}>lines that no stack contains are left out</td>
        </tr>
      ) : null,
      <tr
        key={l.number}
        data-line={l.number}
        data-self={at?.self}
        data-total={at?.total}
        class={kind}
      >
        <th scope="row" class="number">
          {l.number}
        </th>
        {hasSelf && <td class="number">{number(at?.self ?? 0)}</td>}
        <td class="number">{number(at?.total ?? 0)}</td>
        <td class="number">
          {at && (
            <span class="share" style={{ width: `${Math.min(1, at.total / whole) * 100}%` }} />
          )}
          <span class="cell">{at ? percent(at.total, whole) : ""}</span>
        </td>
        <td class="code">
          <code>{l.text}</code>
        </td>
      </tr>,
    ];
  });
  return (
    <>
      <p class="sum">
        {amount(sum.total)} of {amount(whole)} {what} passes through {count(sum.lines.size)} lines
        of this file
        {source.changed && (
          <span class="error"> The file was changed after the recording: lines may differ.</span>
        )}
      </p>
      <div
        class="scroll listing"
        ref={scroll}
        tabIndex={0}
        role="region"
        aria-label={`Source of ${source.file}`}
      >
        <table>
          <thead>
            <tr>
              <th scope="col" class="number">
                line
              </th>
              {hasSelf && (
                <th scope="col" class="number">
                  self
                </th>
              )}
              <th scope="col" class="number">
                total
              </th>
              <th scope="col" class="number">
                share
              </th>
              <th scope="col">source</th>
            </tr>
          </thead>
          <tbody>{rows}</tbody>
        </table>
      </div>
    </>
  );
}
