// SPDX-License-Identifier: MIT
//
// CPU time: the table of functions, own code first, and the call trees.
import { useMemo, useState } from "preact/hooks";
import { count, duration, percent } from "./format";
import { cpuWeights, Filter, functionSums, FunctionSum, matches, timeTree, total } from "./model";
import { Choice, FunctionName, Place, ViewProps } from "./names";
import { Table } from "./table";
import { FORMS, TreeForm, TreeView } from "./tree_view";

type Form = "table" | "time" | TreeForm;

export function CpuView(props: ViewProps & { filter: Filter }) {
  const { data, filter, pattern, ownOnly } = props;
  const [form, setForm] = useState<Form>("table");
  const weights = useMemo(() => cpuWeights(data, filter), [data, filter]);
  const whole = total(weights);
  const sums = useMemo(() => functionSums(data, weights), [data, weights]);
  const rows = useMemo(() => ownFirst(sums, pattern, ownOnly), [sums, pattern, ownOnly]);
  const amount = (samples: number) => duration(samples * data.sampleNs);
  const toFlame = (text: string) => {
    props.onSearch(text);
    setForm("flame");
  };
  return (
    <>
      <div class="bar">
        <Choice
          label="Form"
          values={[["table", "Functions"], ...FORMS, ["time", "In order of time"]] as const}
          value={form}
          onChange={setForm}
        />
        <p class="sum">
          CPU time {amount(whole)}, <span id="cpu-samples">{count(whole)}</span> samples
        </p>
      </div>
      {form === "table" ? (
        <Table
          caption="CPU time by function, the program's own first"
          rows={rows}
          name={(r) => r.fn.name}
          columns={[
            {
              title: "function",
              cell: (r) => <FunctionName fn={r.fn} onSearch={toFlame} />,
              value: (r) => r.fn.short,
            },
            {
              title: "total",
              number: true,
              cell: (r) => percent(r.total, whole),
              value: (r) => r.total,
              share: (r) => r.total / whole,
            },
            {
              title: "own",
              number: true,
              cell: (r) => (r.own ? percent(r.own, whole) : ""),
              value: (r) => r.own,
              share: (r) => r.own / whole,
            },
            {
              title: "self",
              number: true,
              cell: (r) => (r.self ? percent(r.self, whole) : ""),
              value: (r) => r.self,
              share: (r) => r.self / whole,
            },
            { title: "time", number: true, cell: (r) => amount(r.total), value: (r) => r.total },
            {
              title: "samples",
              number: true,
              cell: (r) => count(r.total),
              value: (r) => r.total,
            },
            {
              title: "place",
              cell: (r) => <Place {...props} fn={r.fn} />,
              value: (r) => r.fn.file,
            },
          ]}
        />
      ) : form === "time" ? (
        <InTime {...props} amount={amount} />
      ) : (
        <TreeView
          {...props}
          weights={weights}
          form={form}
          amount={amount}
          label="CPU time by call"
        />
      )}
    </>
  );
}

function ownFirst(sums: FunctionSum[], pattern: RegExp | null, ownOnly: boolean): FunctionSum[] {
  return sums
    .filter((s) => (!ownOnly || s.fn.own) && (!pattern || matches(s.fn, pattern)))
    .sort(
      (a, b) =>
        Number(b.fn.own) - Number(a.fn.own) ||
        b.total - a.total ||
        b.own - a.own ||
        b.self - a.self ||
        (a.fn.name < b.fn.name ? -1 : 1),
    );
}

/** Of one thread: the stacks of several are not nested in time. */
function InTime(props: ViewProps & { filter: Filter; amount: (n: number) => string }) {
  const { data, filter, ownOnly } = props;
  const busiest = useMemo(() => {
    const sums = new Map<number, number>();
    const { thread, samples } = data.raw.samples;
    thread.forEach((t, i) => sums.set(t, (sums.get(t) ?? 0) + samples[i]));
    return [...sums.entries()].sort((a, b) => b[1] - a[1])[0]?.[0] ?? 0;
  }, [data]);
  const tid = filter.tid || busiest;
  const tree = useMemo(
    () => timeTree(data, { ...filter, tid }, { reversed: false, ownOnly }),
    [data, filter, tid, ownOnly],
  );
  return (
    <>
      <p class="dim">
        {data.threadName(tid)}
        {filter.tid ? "" : ", the thread with the most CPU time"}. Time in which it did not run has
        no width.
      </p>
      <TreeView
        {...props}
        weights={new Map()}
        tree={tree}
        form="icicle"
        label="CPU time in the order of time"
      />
    </>
  );
}
