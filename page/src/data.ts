// SPDX-License-Identifier: MIT
//
// The data of the page, as src/tool/report/exports/page/data.c writes them: JSON in gzip in base64.
// Tables are objects of columns. One number stands for a column of equal ones, except for the first column. Times
// become nanoseconds since the start of the recording.

/** A part of `sonde report --json`; docs/json.md describes it. */
// eslint-disable-next-line @typescript-eslint/no-explicit-any
export type Section = any;

interface Raw {
  version: number;
  report: Section;
  /** The name of a function may be a pair: itself and its short form (src/tool/symbol/short_name.h). */
  strings: (string | [string, string])[];
  frames: Record<"function" | "file" | "line" | "library" | "flags", number[]>;
  stacks: Record<"parent" | "frame", number[]>;
  threads: Record<"tid" | "name", number[]>;
  samples: { unit_ns: number } & Record<"from" | "thread" | "stack" | "samples", number[]>;
  waits: { unit_ns: number } & Record<
    "from" | "length" | "thread" | "place" | "samples" | "ns",
    number[]
  >;
  queued: { unit_ns: number } & Record<
    "from" | "length" | "thread" | "run_ns" | "queued_ns",
    number[]
  >;
  places: Record<"stack" | "call" | "kind" | "what" | "futex" | "owner" | "mutex", number[]>;
  blocks: { unit_ns: number } & Record<
    "from" | "length" | "thread" | "stack" | "temporary" | "blocks_256" | "bytes",
    number[]
  >;
  block_totals: Record<
    | "stack"
    | "allocated"
    | "allocated_bytes"
    | "peak"
    | "peak_bytes"
    | "live"
    | "live_bytes"
    | "temporary",
    number[]
  >;
  heap: { unit_ns: number; points: number[] };
  marks: Record<"ns" | "thread" | "name", number[]>;
  calls: Record<"ns" | "thread" | "name", number[]>;
  call_nodes: Record<"parent" | "frame" | "recursive", number[]>;
  spans: { unit_ns: number } & Record<"from" | "length" | "thread" | "node" | "open", number[]>;
  call_sums: { unit_ns: number } & Record<
    "from" | "thread" | "node" | "self" | "calls" | "ns",
    number[]
  >;
  stall_stacks: number[][];
  sources?: { files: { file: number; changed?: boolean; parts: [number, string][] }[] };
}

export const OWN = 1;
export const SYSTEM = 2;
export const INLINED = 4;
export const MARKER = 8;
const INTERPRETED = 32;
const WRAPPER = 64;

/** A function of a library, at all of its lines. */
export interface Fn {
  id: number;
  name: string;
  short: string; // the name as tables show it
  library: string;
  file: string;
  fileText: number; // the number of its name
  line: number;
  own: boolean;
  system: boolean;
}

/** Stands for a stack that a damaged recording lacks, as in reports. */
export const UNKNOWN: Fn = {
  id: -1,
  name: "[a stack that is not in the recording]",
  short: "[a stack that is not in the recording]",
  library: "",
  file: "",
  fileText: 0,
  line: 0,
  own: false,
  system: false,
};

export interface Thread {
  tid: number;
  name: string;
}

/** The text of a source file, or of parts of it. */
export interface Source {
  file: string;
  changed: boolean; // after the recording began
  lines: { number: number; text: string }[];
}

/** The times of a table: the start and the end of each row; the end of a block may be Infinity. */
export interface Times {
  from: Float64Array;
  to: Float64Array;
}

export interface Point {
  ns: number;
  value: number;
}

const TABLES = [
  "threads",
  "samples",
  "waits",
  "queued",
  "places",
  "blocks",
  "block_totals",
  "marks",
  "calls",
  "call_nodes",
  "spans",
  "call_sums",
] as const;

/** Makes arrays of the columns that are one number. */
function expand(raw: Raw): Raw {
  for (const name of TABLES) {
    const table = raw[name] as Record<string, number | number[]>;
    const first = Object.values(table).find((column) => Array.isArray(column));
    for (const [key, column] of Object.entries(table))
      if (typeof column === "number" && key !== "unit_ns")
        table[key] = new Array<number>(first!.length).fill(column);
  }
  return raw;
}

function times(table: { unit_ns: number; from: number[]; length?: number[] }): Times {
  const count = table.from.length;
  const from = new Float64Array(count);
  const to = table.length ? new Float64Array(count) : from; // a sample has no length
  let step = 0;
  for (let i = 0; i < count; i++) {
    step += table.from[i];
    from[i] = step * table.unit_ns;
    if (!table.length) continue;
    const length = table.length[i];
    to[i] = length < 0 ? Infinity : (step + length) * table.unit_ns;
  }
  return { from, to };
}

export class Data {
  readonly report: Section;
  readonly raw: Raw;
  readonly durationNs: number;
  readonly threads: Thread[];
  readonly functions: Fn[] = [];
  /** By frame: the number of its function; -1: no function. */
  readonly frameFn: Int32Array;
  /** By node of the stack table. A parent has a smaller number than its children. */
  readonly parent: Int32Array;
  readonly frame: Int32Array;
  readonly samples: Times;
  readonly waits: Times;
  readonly queued: Times;
  readonly blocks: Times;
  /** Of the longest traced calls, and of the sums of all. */
  readonly spans: Times;
  readonly callSums: Times;
  /** Nanoseconds of CPU time that a sample represents. */
  readonly sampleNs: number;
  readonly heap: Point[];
  readonly rss: Point[];
  /** By the number of the file's name. */
  readonly sources = new Map<number, Source>();
  private readonly shortNames: Map<string, string>;

  constructor(raw: Raw) {
    if (raw.version !== 1) throw new Error(`data of version ${raw.version} are unknown`);
    this.raw = raw;
    this.report = raw.report;
    this.samples = times(raw.samples);
    this.waits = times(raw.waits);
    this.queued = times(raw.queued);
    this.blocks = times(raw.blocks);
    this.spans = times(raw.spans);
    this.callSums = times(raw.call_sums);
    this.parent = Int32Array.from(raw.stacks.parent);
    this.frame = Int32Array.from(raw.stacks.frame);
    this.shortNames = new Map(raw.strings.filter((text) => typeof text !== "string"));
    this.frameFn = this.findFunctions();
    this.heap = this.heapPoints();
    this.rss = (raw.report.usage?.rss_bytes?.points ?? []).map((p: number[]) => ({
      ns: p[0],
      value: p[1],
    }));
    this.durationNs = this.findDuration();
    this.threads = this.findThreads();
    this.sampleNs = this.findSampleNs();
    this.findSources();
  }

  text(i: number): string {
    const text = this.raw.strings[i];
    return typeof text === "string" ? text : text[0];
  }

  /** The short form of a function's name in the report. */
  short(name: string): string {
    return this.shortNames.get(name) ?? name;
  }

  private findFunctions(): Int32Array {
    const { frames } = this.raw;
    const texts = this.raw.strings.length;
    const known = new Map<number, number>();
    const result = new Int32Array(frames.function.length);
    result[0] = -1;
    for (let i = 1; i < result.length; i++) {
      /* As frame_name_compare of the reports: functions of Python have no library, but a file. */
      const key = frames.function[i] * texts + (frames.library[i] || frames.file[i]);
      let id = known.get(key);
      if (id === undefined) {
        id = this.functions.length;
        known.set(key, id);
        this.functions.push({
          id,
          name: this.text(frames.function[i]),
          short: this.short(this.text(frames.function[i])),
          library: this.text(frames.library[i]),
          file: this.text(frames.file[i]),
          fileText: frames.file[i],
          line: frames.line[i],
          own: (frames.flags[i] & OWN) !== 0,
          system: (frames.flags[i] & SYSTEM) !== 0,
        });
      }
      result[i] = id;
    }
    return result;
  }

  private findSources() {
    for (const { file, changed, parts } of this.raw.sources?.files ?? []) {
      const lines = parts.flatMap(([first, text]) =>
        text.split("\n").map((line, i) => ({ number: first + i, text: line })),
      );
      if (lines.length)
        this.sources.set(file, { file: this.text(file), changed: changed === true, lines });
    }
  }

  private heapPoints(): Point[] {
    const { unit_ns, points } = this.raw.heap;
    const result: Point[] = [];
    for (let i = 0; i + 2 < points.length; i += 3) {
      result.push({ ns: points[i] * unit_ns, value: points[i + 1] });
      if (points[i + 2] !== points[i + 1])
        result.push({ ns: (points[i] + 1) * unit_ns, value: points[i + 2] });
    }
    return result;
  }

  private findDuration(): number {
    let most = this.report.duration_ns ?? 0;
    for (const table of [this.samples, this.waits, this.queued, this.blocks, this.spans])
      for (let i = 0; i < table.from.length; i++) {
        if (table.from[i] > most) most = table.from[i];
        if (table.to[i] > most && table.to[i] !== Infinity) most = table.to[i];
      }
    return Math.max(most, 1);
  }

  private findThreads(): Thread[] {
    const names = new Map<number, string>();
    const { tid, name } = this.raw.threads;
    for (let i = 0; i < tid.length; i++) if (tid[i]) names.set(tid[i], this.text(name[i]));
    for (const t of this.report.wall?.threads ?? []) if (t.name) names.set(t.tid, t.name);
    for (const t of this.report.cpu?.threads ?? []) if (t.name) names.set(t.tid, t.name);
    const used = new Set<number>((this.report.stalls?.stalls ?? []).map((s: Section) => s.tid));
    const { samples, waits, blocks, call_sums } = this.raw;
    for (const { thread } of [samples, waits, blocks, call_sums])
      for (let i = 0; i < thread.length; i++) if (thread[i] !== thread[i - 1]) used.add(thread[i]);
    used.delete(0);
    return [...used].sort((a, b) => a - b).map((t) => ({ tid: t, name: names.get(t) ?? "" }));
  }

  private findSampleNs(): number {
    const time = this.report.sample?.cpu_time?.sampled_ns;
    const count = this.report.sample?.samples;
    return time && count ? time / count : 1e7;
  }

  threadName(tid: number): string {
    const thread = this.threads.find((t) => t.tid === tid);
    return thread?.name ? `${thread.name} ${tid}` : `thread ${tid}`;
  }

  /** The functions of a stack from the innermost, without the ends of broken stacks. */
  stackFunctions(stack: number): Fn[] {
    const result: Fn[] = [];
    for (let n = stack; n; n = this.parent[n]) {
      if (this.raw.frames.flags[this.frame[n]] & MARKER) continue;
      result.push(this.functions[this.frameFn[this.frame[n]]]);
    }
    return result;
  }

  functionOf(frame: number): Fn {
    return this.functions[this.frameFn[frame]] ?? UNKNOWN;
  }

  /** As frame_names_owner of the reports: the innermost of the program's own functions, else the innermost outside the
   * system, else of an interpreter's language, else that is no wrapper of the allocator, else the innermost, which may
   * be the end of a broken stack. */
  owner(stack: number): Fn | undefined {
    let outside: Fn | undefined;
    let interpreted: Fn | undefined;
    let caller: Fn | undefined;
    for (let n = stack; n; n = this.parent[n]) {
      const flags = this.raw.frames.flags[this.frame[n]];
      if (flags & MARKER) continue;
      const fn = this.functions[this.frameFn[this.frame[n]]];
      if (fn.own) return fn;
      if (!fn.system) outside ??= fn;
      if (flags & INTERPRETED) interpreted ??= fn;
      if (!(flags & WRAPPER)) caller ??= fn;
    }
    const innermost = stack ? this.functionOf(this.frame[stack]) : undefined;
    return outside ?? interpreted ?? caller ?? innermost;
  }
}

/** Browsers of 2025 and later decode by themselves. */
interface FromBase64 {
  fromBase64?: (text: string) => Uint8Array<ArrayBuffer>;
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const builtIn = (Uint8Array as FromBase64).fromBase64;
  if (builtIn) return builtIn(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

export async function unpack(base64: string) {
  const stream = new Blob([bytesOf(base64)]).stream();
  return new Response(stream.pipeThrough(new DecompressionStream("gzip"))).json();
}

export async function readData(base64: string): Promise<Data> {
  return new Data(expand(await unpack(base64)));
}
