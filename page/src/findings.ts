// SPDX-License-Identifier: MIT
//
// Which stalls and findings of the audit a filter keeps, and what is known of a finding's calls in a range.
import { Data, Section } from "./data";
import { Filter, Range, Weights } from "./model";

function fileName(path: string | undefined): string {
  return path ? path.slice(path.lastIndexOf("/") + 1) : "";
}

/** The libraries of the frames of a part of the report. */
function librariesOf(frames: Section[] | undefined): string[] {
  return (frames ?? []).map((f) => fileName(f.module)).filter(Boolean);
}

/** All libraries, for the field that selects one. */
export function libraries(data: Data): string[] {
  const found = new Set(data.functions.map((f) => f.library));
  for (const f of data.report.audit?.findings ?? [])
    for (const name of [fileName(f.module), ...librariesOf(f.frames)]) found.add(name);
  for (const s of data.report.stalls?.stalls ?? [])
    for (const name of librariesOf(s.frames)) found.add(name);
  found.delete("");
  return [...found].sort();
}

// ---- audit -------------------------------------------------------------------------------------

/** The program, and the libraries with functions that count as its own. */
function ownLibraries(data: Data): Set<string> {
  const own = new Set(data.functions.filter((f) => f.own).map((f) => f.library));
  return own.add(fileName(data.report.exe));
}

export interface AuditCalls {
  least: number;
  most: number;
  all: number; // of the whole recording
}

/**
 * The calls of a finding in a range: the times of the first and the last call are known, the others were between
 * these.
 */
export function auditCalls(finding: Section, range: Range): AuditCalls {
  const { calls, first_ns, last_ns } = finding;
  const inside = [first_ns, last_ns].filter((ns) => ns >= range.from && ns < range.to).length;
  if (inside === 2) return { least: calls, most: calls, all: calls };
  if (first_ns >= range.to || last_ns < range.from) return { least: 0, most: 0, all: calls };
  if (first_ns === last_ns) return { least: 0, most: 0, all: calls };
  return { least: inside, most: calls - (2 - inside), all: calls };
}

export function findings(data: Data, filter: Filter, ownOnly: boolean): Section[] {
  const own = ownLibraries(data);
  return (data.report.audit?.findings ?? []).filter(
    (f: Section) =>
      auditCalls(f, filter.range).most > 0 &&
      (!filter.tid || f.tid === filter.tid) &&
      (!ownOnly || own.has(fileName(f.module))) &&
      (!filter.library || [fileName(f.module), ...librariesOf(f.frames)].includes(filter.library)),
  );
}

/** "3 succeeded, 2 failed (ENOENT)", or "returned 5". */
export function auditResults(finding: Section): string {
  const results: Section = finding.results;
  if (!results) return "";
  const { succeeded, failed, value } = results;
  const parts: string[] = [];
  if (succeeded && !failed && value !== undefined) parts.push(`returned ${value}`);
  else if (succeeded) parts.push(failed ? `${succeeded} succeeded` : "succeeded");
  const names = (results.errors ?? []).map((e: Section) => e.name ?? `error ${e.errno}`);
  if (failed)
    parts.push(
      `${succeeded ? `${failed} ` : ""}failed${names.length ? `: ${names.join(", ")}` : ""}`,
    );
  return parts.join(", ");
}

// ---- stalls ------------------------------------------------------------------------------------

/** The samples of a stall by stack, in nanoseconds. */
export function stallWeights(data: Data, number: number): Weights {
  const result: Weights = new Map();
  const row = data.raw.stall_stacks.find((r) => r[0] === number) ?? [];
  for (let i = 1; i + 1 < row.length; i += 2)
    result.set(row[i], (result.get(row[i]) ?? 0) + row[i + 1]);
  return result;
}

function isIn(data: Data, stall: Section, library: string): boolean {
  if (librariesOf(stall.frames).includes(library)) return true;
  return [...stallWeights(data, stall.number).keys()].some((stack) =>
    data.stackFunctions(stack).some((f) => f.library === library),
  );
}

/** Stalls that lasted into the range. */
export function stalls(data: Data, filter: Filter): Section[] {
  return (data.report.stalls?.stalls ?? []).filter(
    (s: Section) =>
      s.began_ns < filter.range.to &&
      s.began_ns + s.total_ns > filter.range.from &&
      (!filter.tid || s.tid === filter.tid) &&
      (!filter.library || isIn(data, s, filter.library)),
  );
}
