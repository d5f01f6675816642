// SPDX-License-Identifier: MIT
//
// Parts that several views share: names of functions, stacks, and groups of buttons.
import { Data, Fn, Section } from "./data";
import { place } from "./format";

export interface ViewProps {
  data: Data;
  pattern: RegExp | null;
  ownOnly: boolean;
  onSearch: (text: string) => void;
  /** Shows a line of the file with this name. */
  onSource: (file: number, line: number) => void;
}

export function exactly(name: string): string {
  return `^${name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&")}$`;
}

export function FunctionName({ fn, onSearch }: { fn: Fn; onSearch?: (text: string) => void }) {
  const name = (
    <span class={fn.own ? "name own" : "name"} title={fn.name}>
      {fn.short}
    </span>
  );
  if (!onSearch) return name;
  return (
    <button type="button" class="link" onClick={() => onSearch(exactly(fn.name))}>
      {name}
    </button>
  );
}

type PlaceProps = Partial<Pick<ViewProps, "data" | "onSource">> & { fn: Fn };

export function Place({ fn, data, onSource }: PlaceProps) {
  const text = (
    <span class="place" title={fn.file + (fn.line ? `:${fn.line}` : "") || fn.library}>
      {place(fn.file, fn.line, fn.library)}
    </span>
  );
  if (!data?.sources.has(fn.fileText)) return text;
  return (
    <button type="button" class="link" onClick={() => onSource?.(fn.fileText, fn.line)}>
      {text}
    </button>
  );
}

/** A stack of the data, innermost first. */
export function Stack({ data, stack }: { data: Data; stack: number }) {
  const rows = [];
  for (let n = stack; n; n = data.parent[n]) {
    const frame = data.frame[n];
    const fn = data.functions[data.frameFn[frame]];
    rows.push({ fn, line: data.raw.frames.line[frame], file: fn.file });
  }
  if (!rows.length) return <p class="dim">The stack could not be read.</p>;
  return (
    <ol class="stack">
      {rows.map((r, i) => (
        <li key={i} class={r.fn.own ? "own" : ""}>
          <code title={r.fn.name}>{r.fn.short}</code>{" "}
          <span class="dim">{place(r.file, r.line, r.fn.library)}</span>
        </li>
      ))}
    </ol>
  );
}

interface FramesProps {
  frames: Section[] | undefined;
  data?: Data; // knows the short names
}

/** The frames of a part of the report. */
export function Frames({ frames, data }: FramesProps) {
  if (!frames?.length) return <p class="dim">The stack could not be read.</p>;
  return (
    <ol class="stack">
      {frames.map((f, i) => (
        <li key={i}>
          <code title={f.function}>
            {f.function
              ? (data?.short(f.function) ?? f.function)
              : `${f.module ?? ""}${f.offset ? `+${f.offset}` : (f.pc ?? "")}`}
          </code>{" "}
          <span class="dim">{place(f.file ?? "", f.line ?? 0, f.module ?? "")}</span>
        </li>
      ))}
    </ol>
  );
}

interface ChoiceProps<T extends string> {
  label: string;
  values: readonly (readonly [T, string])[];
  value: T;
  onChange: (value: T) => void;
}

export function Choice<T extends string>({ label, values, value, onChange }: ChoiceProps<T>) {
  return (
    <div class="choice" role="group" aria-label={label}>
      {values.map(([key, text]) => (
        <button key={key} type="button" aria-pressed={key === value} onClick={() => onChange(key)}>
          {text}
        </button>
      ))}
    </div>
  );
}
