// SPDX-License-Identifier: MIT
//
// Waits: which thread waited for which lock, file or call, and who held the lock.
import { useMemo, useState } from "preact/hooks";
import { count, duration, percent } from "./format";
import { Filter, matches, waitSums, waitTarget, waitWeights, WaitSum } from "./model";
import { Choice, FunctionName, Stack, ViewProps } from "./names";
import { Table } from "./table";
import { FORMS, TreeForm, TreeView } from "./tree_view";

type Form = "table" | TreeForm;

export function WaitsView(props: ViewProps & { filter: Filter }) {
  const { data, filter, pattern, ownOnly } = props;
  const [form, setForm] = useState<Form>("table");
  const sums = useMemo(() => waitSums(data, filter), [data, filter]);
  const weights = useMemo(() => waitWeights(data, filter), [data, filter]);
  const whole = sums.reduce((sum, w) => sum + w.ns, 0);
  const locks = sums.reduce((sum, w) => sum + (w.mutex ? w.ns : 0), 0);
  const shown = (w: WaitSum) => {
    const owner = data.owner(w.stack);
    if (ownOnly && !owner?.own) return false;
    return (
      !pattern ||
      pattern.test(w.call) ||
      pattern.test(waitTarget(w)) ||
      (owner !== undefined && matches(owner, pattern))
    );
  };
  return (
    <>
      <div class="bar">
        <Choice
          label="Form"
          values={[["table", "Waits"], ...FORMS] as const}
          value={form}
          onChange={setForm}
        />
        <p class="sum">
          <span id="wait-time" data-ns={Math.round(whole)}>
            {duration(whole)}
          </span>{" "}
          blocked{locks > 0 ? `, ${duration(locks)} of it for locks` : ""}
        </p>
      </div>
      {form === "table" ? (
        <Table
          caption="Waits by thread and by what it waited for"
          rows={sums.filter(shown)}
          name={(w) => `the wait of ${data.threadName(w.tid)}`}
          detail={(w) => <Stack data={data} stack={w.stack} />}
          columns={[
            {
              title: "time",
              number: true,
              cell: (w) => duration(w.ns),
              value: (w) => w.ns,
              share: (w) => w.ns / whole,
            },
            { title: "share", number: true, cell: (w) => percent(w.ns, whole), value: (w) => w.ns },
            { title: "thread", cell: (w) => data.threadName(w.tid), value: (w) => w.tid },
            {
              title: "call",
              cell: (w) => w.call || (w.mutex ? "" : "unknown"),
              value: (w) => w.call,
            },
            {
              title: "waits for",
              cell: (w) => <span class="name">{waitTarget(w)}</span>,
              value: waitTarget,
            },
            {
              title: "held by",
              cell: (w) => (w.owner ? data.threadName(w.owner) : ""),
              value: (w) => w.owner,
            },
            {
              title: "in",
              cell: (w) => {
                const fn = data.owner(w.stack);
                return fn ? <FunctionName fn={fn} /> : "";
              },
            },
            {
              title: "samples",
              number: true,
              cell: (w) => count(w.samples),
              value: (w) => w.samples,
            },
          ]}
        />
      ) : (
        <TreeView
          {...props}
          weights={weights}
          form={form}
          amount={duration}
          label="Blocked time by call"
        />
      )}
    </>
  );
}
