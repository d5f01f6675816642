// SPDX-License-Identifier: MIT
//
// Allocations: live at the peak or at a chosen moment, never freed, temporary, and what was allocated
// in the range.
import { useMemo, useState } from "preact/hooks";
import { momentEnd } from "./axis";
import { bytes, count, exactSeconds, percent, seconds } from "./format";
import { byOwner, Filter, isWhole, matches, memoryAmounts, MemoryMode, total } from "./model";
import { Choice, FunctionName, Place, ViewProps } from "./names";
import { Table } from "./table";
import { FORMS, TreeForm, TreeView } from "./tree_view";

type Form = "table" | TreeForm;

const TEXT: Record<MemoryMode, string> = {
  peak: "live at the peak",
  live: "live at the chosen moment",
  allocated: "allocated in the range",
  kept: "allocated in the range and live at its end",
  leaked: "allocated in the range and never freed",
  temporary: "allocated in the range and freed by the thread's next call",
};

interface Props extends ViewProps {
  filter: Filter;
  moment: number;
  chosen: MemoryMode | null; // null: what suits the range
  onMode: (mode: MemoryMode) => void;
}

export function MemoryView(props: Props) {
  const { data, filter, moment, chosen, pattern, ownOnly } = props;
  const malloc = data.report.malloc ?? {};
  const modes: [MemoryMode, string][] = [["peak", "At the peak"]];
  if (data.raw.blocks.from.length) modes.push(["live", "At a moment"]);
  if (malloc.allocated) modes.push(["allocated", "Allocated"]);
  if (malloc.allocated && !isWhole(filter.range)) modes.push(["kept", "Still live"]);
  modes.push(["leaked", "Never freed"]);
  if (malloc.temporary !== undefined && data.raw.blocks.from.length)
    modes.push(["temporary", "Temporary"]);
  const [form, setForm] = useState<Form>("table");
  const first = isWhole(filter.range) ? "peak" : malloc.allocated ? "allocated" : "leaked";
  const mode = chosen && modes.some(([m]) => m === chosen) ? chosen : first;
  const amounts = useMemo(
    () => memoryAmounts(data, filter, mode, moment),
    [data, filter, mode, moment],
  );
  const owners = useMemo(() => byOwner(data, amounts), [data, amounts]);
  const whole = total(amounts.bytes);
  const end = momentEnd(moment, data.raw.blocks.unit_ns, data.durationNs);
  const when = { peak: seconds(malloc.peak_ns ?? 0, 1e6), live: exactSeconds(end) }[mode as string];
  const toFlame = (text: string) => {
    props.onSearch(text);
    setForm("flame");
  };
  return (
    <>
      <div class="bar">
        <Choice label="Blocks" values={modes} value={mode} onChange={props.onMode} />
        <Choice
          label="Form"
          values={[["table", "Functions"], ...FORMS] as const}
          value={form}
          onChange={setForm}
        />
      </div>
      <p class="sum">
        <span id="memory-bytes" data-bytes={whole}>
          {bytes(whole)}
        </span>{" "}
        in {count(total(amounts.blocks))} blocks {TEXT[mode]}
        {when === undefined ? "" : `, at ${when} s`}
        {malloc.sampled ? "; estimated from sampled blocks" : ""}
        {mode === "peak" && (filter.tid || !isWhole(filter.range))
          ? "; the peak is of the whole recording and all threads"
          : ""}
      </p>
      {form === "table" ? (
        <Table
          caption={`Memory by function: ${TEXT[mode]}`}
          rows={owners.filter(
            (o) => (!ownOnly || o.fn.own) && (!pattern || matches(o.fn, pattern)),
          )}
          name={(r) => r.fn.name}
          columns={[
            {
              title: "function",
              cell: (r) => <FunctionName fn={r.fn} onSearch={toFlame} />,
              value: (r) => r.fn.short,
            },
            {
              title: "bytes",
              number: true,
              cell: (r) => bytes(r.bytes),
              value: (r) => r.bytes,
              share: (r) => r.bytes / whole,
            },
            {
              title: "share",
              number: true,
              cell: (r) => percent(r.bytes, whole),
              value: (r) => r.bytes,
            },
            { title: "blocks", number: true, cell: (r) => count(r.blocks), value: (r) => r.blocks },
            { title: "stacks", number: true, cell: (r) => count(r.stacks), value: (r) => r.stacks },
            {
              title: "place",
              cell: (r) => <Place {...props} fn={r.fn} />,
              value: (r) => r.fn.file,
            },
          ]}
        />
      ) : (
        <TreeView
          {...props}
          weights={amounts.bytes}
          form={form}
          amount={bytes}
          label={`Memory ${TEXT[mode]}, by call`}
        />
      )}
    </>
  );
}
