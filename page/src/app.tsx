// SPDX-License-Identifier: MIT
//
// The page: head, time line, filters and one view at a time. Views without recorded data are left out.
import { useMemo, useState } from "preact/hooks";
import { binNs, snap } from "./axis";
import { Data } from "./data";
import { libraries } from "./findings";
import { Figure } from "./glance";
import { GlanceList } from "./glance_list";
import { Head } from "./head";
import { compile, Filter, isWhole, MemoryMode, Range, resources, WHOLE } from "./model";
import { ViewProps } from "./names";
import { Timeline } from "./timeline";
import { AuditView } from "./view_audit";
import { CallsView } from "./view_calls";
import { CpuView } from "./view_cpu";
import { CrashView } from "./view_crash";
import { DiffView } from "./view_diff";
import { MemoryView } from "./view_memory";
import { SourcePlace, SourceView } from "./view_source";
import { StallsView } from "./view_stalls";
import { UsageView } from "./view_usage";
import { WaitsView } from "./view_waits";

const TITLES = {
  diff: "Changes",
  crash: "Crash",
  cpu: "CPU time",
  memory: "Memory",
  waits: "Waits",
  stalls: "Stalls",
  calls: "Calls",
  audit: "Audit",
  source: "Source",
  resources: "Resources",
} as const;
type View = keyof typeof TITLES;

function viewsOf(data: Data, old: Data | undefined): View[] {
  const { report, raw } = data;
  const has: Record<View, boolean> = {
    diff: old !== undefined,
    crash: Boolean(report.crash?.signal),
    cpu: raw.samples.from.length > 0,
    memory: raw.block_totals.stack.length > 0,
    resources: resources(data, WHOLE).length > 0,
    waits: raw.waits.from.length > 0,
    stalls: (report.stalls?.stalls?.length ?? 0) > 0,
    calls: (report.trace?.calls ?? 0) > 0,
    source: data.sources.size > 0,
    audit: (report.audit?.findings?.length ?? 0) > 0,
  };
  return (Object.keys(TITLES) as View[]).filter((v) => has[v]);
}

interface Props {
  data: Data;
  old?: Data; // the recording to compare with
  facts: string;
  licences: string;
}

export function App({ data, old, facts, licences }: Props) {
  const views = useMemo(() => viewsOf(data, old), [data, old]);
  const [view, setView] = useState<View | undefined>(views[0]);
  const [range, setRange] = useState<Range>(WHOLE);
  const onRange = (next: Range) =>
    setRange(isWhole(next) ? WHOLE : snap(next, binNs(data), data.durationNs));
  const [tid, setTid] = useState(0);
  const [library, setLibrary] = useState("");
  const [ownOnly, setOwnOnly] = useState(false);
  const [search, setSearch] = useState("");
  const [moment, setMoment] = useState<number | null>(null);
  const [memoryMode, setMemoryMode] = useState<MemoryMode | null>(null);
  const libraryNames = useMemo(() => libraries(data), [data]);
  const compiled = useMemo(() => (search ? compile(search) : undefined), [search]);
  const filter: Filter = useMemo(() => ({ range, tid, library }), [range, tid, library]);
  const [place, setPlace] = useState<SourcePlace | null>(null);
  const onSource = (file: number, line: number) => {
    setPlace({ file, line });
    setView("source");
  };
  const pattern = compiled ?? null;
  const shared: ViewProps = { data, pattern, ownOnly, onSearch: setSearch, onSource };

  const onPeak = () => {
    setMemoryMode("peak");
    setView("memory");
  };

  const onFigure = (key: Figure["key"]) => {
    setRange(WHOLE);
    if (key === "peak" || key === "leaked") setMemoryMode(key);
    const wanted = { cpu: "cpu", peak: "memory", leaked: "memory", locks: "waits" }[key] as View;
    if (views.includes(wanted)) setView(wanted);
  };

  const onTabKey = (e: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!step || !view) return;
    const next = views[(views.indexOf(view) + step + views.length) % views.length];
    setView(next);
    document.getElementById(`tab-${next}`)?.focus();
  };

  return (
    <>
      <Head report={data.report} facts={facts} />
      <main>
        <GlanceList data={data} onShow={onFigure} />
        {data.threads.length > 0 && (
          <Timeline
            data={data}
            range={range}
            onRange={onRange}
            moment={moment}
            onMoment={setMoment}
            onPeak={views.includes("memory") && data.report.malloc?.peak ? onPeak : undefined}
            tid={tid}
            onThread={setTid}
          />
        )}
        {!view ? (
          <p class="empty">This recording has no events to show.</p>
        ) : (
          <>
            <div class="bar filters" role="search">
              <label>
                Search{" "}
                <input
                  type="search"
                  value={search}
                  placeholder="regular expression"
                  aria-invalid={compiled === null}
                  aria-describedby={compiled === null ? "search-error" : undefined}
                  onInput={(e) => setSearch((e.target as HTMLInputElement).value)}
                />
              </label>
              {compiled === null && (
                <span id="search-error" class="error">
                  not a regular expression
                </span>
              )}
              <label>
                Thread{" "}
                <select
                  value={String(tid)}
                  onChange={(e) => setTid(Number((e.target as HTMLSelectElement).value))}
                >
                  <option value="0">all</option>
                  {data.threads.map((t) => (
                    <option key={t.tid} value={String(t.tid)}>
                      {data.threadName(t.tid)}
                    </option>
                  ))}
                </select>
              </label>
              <label>
                Library{" "}
                <select
                  value={library}
                  onChange={(e) => setLibrary((e.target as HTMLSelectElement).value)}
                >
                  <option value="">all</option>
                  {libraryNames.map((l) => (
                    <option key={l} value={l}>
                      {l}
                    </option>
                  ))}
                </select>
              </label>
              <label class="check">
                <input
                  type="checkbox"
                  checked={ownOnly}
                  onChange={(e) => setOwnOnly((e.target as HTMLInputElement).checked)}
                />{" "}
                own code only
              </label>
            </div>
            <div class="tabs" role="tablist" aria-label="Views" onKeyDown={onTabKey}>
              {views.map((v) => (
                <button
                  key={v}
                  type="button"
                  role="tab"
                  id={`tab-${v}`}
                  aria-selected={v === view}
                  aria-controls="panel"
                  tabIndex={v === view ? 0 : -1}
                  onClick={() => {
                    setPlace(null);
                    setView(v);
                  }}
                >
                  {TITLES[v]}
                </button>
              ))}
            </div>
            <section id="panel" role="tabpanel" aria-labelledby={`tab-${view}`}>
              {view === "diff" && old && <DiffView {...shared} old={old} />}
              {view === "cpu" && <CpuView {...shared} filter={filter} />}
              {view === "memory" && (
                <MemoryView
                  {...shared}
                  filter={filter}
                  moment={moment ?? data.report.malloc?.peak_ns ?? data.durationNs}
                  chosen={memoryMode}
                  onMode={setMemoryMode}
                />
              )}
              {view === "resources" && <UsageView data={data} filter={filter} />}
              {view === "waits" && <WaitsView {...shared} filter={filter} />}
              {view === "stalls" && <StallsView {...shared} filter={filter} />}
              {view === "calls" && <CallsView {...shared} filter={filter} />}
              {view === "source" && <SourceView {...shared} filter={filter} place={place} />}
              {view === "audit" && <AuditView {...shared} filter={filter} />}
              {view === "crash" && <CrashView {...shared} />}
            </section>
          </>
        )}
      </main>
      <footer>
        <details>
          <summary>Licences of the libraries in this page</summary>
          <pre tabIndex={0}>{licences}</pre>
        </details>
      </footer>
    </>
  );
}
