// SPDX-License-Identifier: MIT
//
// What changed since another recording: by function, and as a graph whose colors show the change.
import { useMemo, useState } from "preact/hooks";
import { Data } from "./data";
import { changeOf, DiffMeasure, diffRows, diffTree, diffWeights } from "./diff";
import { Flame } from "./flame";
import { bytes, duration, percent } from "./format";
import { matches, total } from "./model";
import { Choice, FunctionName, Place, ViewProps } from "./names";
import { Table } from "./table";

const MEASURES: [DiffMeasure, string][] = [
  ["cpu", "CPU time"],
  ["peak", "Peak"],
  ["allocated", "Allocated"],
  ["leaked", "Never freed"],
];

export function DiffView(props: ViewProps & { old: Data }) {
  const { data, old, pattern, ownOnly } = props;
  const measures = MEASURES.filter(
    ([m]) => total(diffWeights(data, m)) > 0 || total(diffWeights(old, m)) > 0,
  );
  const [chosen, setMeasure] = useState<DiffMeasure>(measures[0]?.[0] ?? "cpu");
  const [form, setForm] = useState<"table" | "icicle" | "flame">("table");
  const rows = useMemo(() => diffRows(old, data, chosen), [old, data, chosen]);
  const { root, before } = useMemo(
    () => diffTree(old, data, chosen, { reversed: false, ownOnly }),
    [old, data, chosen, ownOnly],
  );
  /* A sample of the other recording may stand for another time. */
  const factor = old.sampleNs / data.sampleNs;
  const amount = (n: number) => (chosen === "cpu" ? duration(n * data.sampleNs) : bytes(n));
  const earlier = (n: number) => (chosen === "cpu" ? n * factor : n);
  const change = (a: number, b: number) => {
    const by = b - a;
    return `${by > 0 ? "+" : by < 0 ? "−" : ""}${amount(Math.abs(by))}`;
  };
  const sums = [total(diffWeights(old, chosen)), total(diffWeights(data, chosen))];
  return (
    <>
      <div class="bar">
        <Choice label="Measure" values={measures} value={chosen} onChange={setMeasure} />
        <Choice
          label="Form"
          values={
            [
              ["table", "Functions"],
              ["flame", "Flame graph"],
              ["icicle", "Icicle"],
            ] as const
          }
          value={form}
          onChange={setForm}
        />
      </div>
      <p class="sum">
        <span id="diff-old" data-value={sums[0]}>
          {amount(earlier(sums[0]))}
        </span>{" "}
        before,{" "}
        <span id="diff-new" data-value={sums[1]}>
          {amount(sums[1])}
        </span>{" "}
        now: {change(earlier(sums[0]), sums[1])}
        {sums[0] > 0 ? ` (${percent(sums[1] - earlier(sums[0]), earlier(sums[0]))})` : ""}
      </p>
      {form === "table" ? (
        <Table
          caption="Changes by function, the largest first; both recordings as a whole"
          rows={rows.filter((r) => (!ownOnly || r.fn.own) && (!pattern || matches(r.fn, pattern)))}
          name={(r) => r.fn.name}
          columns={[
            {
              title: "function",
              cell: (r) => <FunctionName fn={r.fn} />,
              value: (r) => r.fn.short,
            },
            {
              title: "change",
              number: true,
              cell: (r) => (
                <span class={changeOf(earlier(r.before), r.after, sums[1])}>
                  {change(earlier(r.before), r.after)}
                </span>
              ),
              value: (r) => r.after - earlier(r.before),
            },
            {
              title: "before",
              number: true,
              cell: (r) => amount(earlier(r.before)),
              value: (r) => r.before,
            },
            { title: "now", number: true, cell: (r) => amount(r.after), value: (r) => r.after },
            { title: "place", cell: (r) => <Place fn={r.fn} />, value: (r) => r.fn.file },
          ]}
        />
      ) : (
        <Flame
          data={data}
          root={root}
          up={form === "flame"}
          amount={amount}
          pattern={pattern}
          label="The new recording by call, with its changes"
          kind={(node) => changeOf(earlier(before.get(node) ?? 0), node.weight, root.weight)}
          extra={(node) => `${change(earlier(before.get(node) ?? 0), node.weight)} since before`}
        />
      )}
    </>
  );
}
