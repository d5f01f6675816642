// SPDX-License-Identifier: MIT
//
// The time line: curves of memory, a lane for each thread, and markers, drawn on one canvas with one
// scale. Dragging selects a range; so do the arrow keys, and two fields for screen readers.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { axisStep, binNs, labelLeft } from "./axis";
import { Data, Point } from "./data";
import { bytes, duration, exactSeconds, seconds } from "./format";
import { makeLanes, orderThreads, STATES, STATE_TEXT, stateAt } from "./lanes";
import { marksAt, marksOf } from "./marks";
import { Range, WHOLE, isWhole } from "./model";
import { Moment } from "./moment";

const LANE = 18;
const GAP = 3;
const CURVES = 72;
const AXIS = 18;
const LANES_SHOWN = 10;
const AROUND = 20; // a moment's range is this part of the time line

interface Props {
  data: Data;
  range: Range;
  onRange: (range: Range) => void;
  moment: number | null; // that was chosen
  onMoment: (ns: number | null) => void;
  onPeak?: () => void; // undefined: there is no peak
  tid: number;
  onThread: (tid: number) => void;
}

export function Timeline(props: Props) {
  const { data, range } = props;
  const canvas = useRef<HTMLCanvasElement>(null);
  const drag = useRef<number | null>(null);
  const anchor = useRef<number | null>(null); // where Shift and an arrow began a selection
  const [width, setWidth] = useState(0);
  const [window_, setWindow] = useState<Range>({ from: 0, to: data.durationNs });
  const [cursor, setCursor] = useState<number | null>(null);
  const [hint, setHint] = useState("");
  const [all, setAll] = useState(false);
  const [scheme, setScheme] = useState(0);

  const threads = useMemo(() => orderThreads(data), [data]);
  const shown = all ? threads : threads.slice(0, LANES_SHOWN);
  const marks = useMemo(() => marksOf(data), [data]);
  const gutter = width < 500 ? 76 : 150;
  const columns = Math.max(1, Math.floor(width - gutter));
  const hasCurves = data.heap.length > 0 || data.rss.length > 0;
  const top = hasCurves ? CURVES + 8 : 4;
  const height = top + shown.length * (LANE + GAP) + AXIS;
  const length = window_.to - window_.from;
  const lanes = useMemo(
    () => makeLanes(data, window_.from, window_.to, columns),
    [data, window_, columns],
  );

  useEffect(() => {
    const element = canvas.current!.parentElement!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    const media = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => setScheme((n) => n + 1);
    media.addEventListener("change", changed);
    return () => {
      observer.disconnect();
      media.removeEventListener("change", changed);
    };
  }, []);

  const xOf = (ns: number) => gutter + ((ns - window_.from) / length) * columns;
  const nsOf = (x: number) =>
    Math.min(data.durationNs, Math.max(0, window_.from + ((x - gutter) / columns) * length));

  useEffect(() => {
    if (!width) return;
    const element = canvas.current!;
    const scale = devicePixelRatio || 1;
    element.width = width * scale;
    element.height = height * scale;
    element.style.height = `${height}px`;
    const g = element.getContext("2d")!;
    g.scale(scale, scale);
    const style = getComputedStyle(document.documentElement);
    const color = (name: string) => style.getPropertyValue(`--${name}`).trim();
    g.font = "12px system-ui, sans-serif";
    g.textBaseline = "middle";
    g.fillStyle = color("back");
    g.fillRect(0, 0, width, height);

    const drawAxis = () => {
      const step = axisStep(length, columns);
      g.fillStyle = color("dim");
      g.strokeStyle = color("line");
      for (let t = Math.ceil(window_.from / step) * step; t <= window_.to; t += step) {
        const x = Math.round(xOf(t)) + 0.5;
        g.beginPath();
        g.moveTo(x, 0);
        g.lineTo(x, height - AXIS);
        g.stroke();
        const text = `${seconds(t, step)} s`;
        const half = g.measureText(text).width / 2;
        g.fillText(text, Math.min(Math.max(x - half, gutter), width - 2 * half), height - AXIS / 2);
      }
    };

    const drawCurve = (points: Point[], most: number, line: string, fill: boolean) => {
      if (!points.length) return;
      const y = (v: number) => CURVES - (v / most) * (CURVES - 14);
      g.save();
      g.beginPath();
      g.rect(gutter, 0, columns, CURVES + 2);
      g.clip();
      g.beginPath();
      let last = y(points[0].value);
      g.moveTo(xOf(points[0].ns), last);
      for (const p of points) {
        g.lineTo(xOf(p.ns), last);
        last = y(p.value);
        g.lineTo(xOf(p.ns), last);
      }
      g.lineTo(xOf(data.durationNs), last);
      g.strokeStyle = line;
      g.lineWidth = 1.5;
      g.stroke();
      g.lineWidth = 1;
      if (fill) {
        g.lineTo(xOf(data.durationNs), CURVES);
        g.lineTo(xOf(points[0].ns), CURVES);
        g.globalAlpha = 0.14;
        g.fillStyle = line;
        g.fill();
        g.globalAlpha = 1;
      }
      g.restore();
    };

    const drawCurves = () => {
      const most = Math.max(1, ...data.heap.map((p) => p.value), ...data.rss.map((p) => p.value));
      drawCurve(data.rss, most, color("rss"), false);
      drawCurve(data.heap, most, color("heap"), true);
      g.fillStyle = color("text");
      g.fillText(gutter > 100 ? "memory" : "mem.", 4, 12);
      g.fillStyle = color("dim");
      g.fillText(bytes(most), 4, 28);
      const malloc = data.report.malloc;
      if (malloc?.peak_ns === undefined || !malloc.peak?.bytes || !data.heap.length) return;
      const x = xOf(malloc.peak_ns);
      if (x < gutter || x > width) return;
      const y = CURVES - (malloc.peak.bytes / most) * (CURVES - 14);
      g.beginPath();
      g.arc(x, y, 3.5, 0, 7);
      g.fillStyle = color("heap");
      g.fill();
      const text = `peak ${bytes(malloc.peak.bytes)}`;
      const wide = g.measureText(text).width;
      const left = labelLeft(x, wide, gutter + 3, width - 3);
      const middle = Math.max(7, y - 9); /* above the curve, which it would hide */
      g.strokeStyle = color("back");
      g.lineWidth = 4;
      g.strokeText(text, left, middle);
      g.lineWidth = 1;
      g.fillStyle = color("text");
      g.fillText(text, left, middle);
    };

    const drawLanes = () => {
      shown.forEach((thread, row) => {
        const y = top + row * (LANE + GAP);
        const lane = lanes.get(thread.tid)!;
        g.fillStyle = color("lane");
        g.fillRect(gutter, y, columns, LANE);
        for (let c = 0; c < columns; c++) {
          let bottom = y + LANE;
          let left = 1;
          for (const state of STATES) {
            const part = Math.min(left, lane[state][c] ?? 0);
            if (part < 0.02) continue;
            left -= part;
            const size = state === "blocked" ? Math.min(part * LANE, LANE) : part * LANE;
            g.fillStyle = color(state);
            g.fillRect(gutter + c, bottom - size, 1, size);
            bottom -= size;
          }
        }
        g.fillStyle = thread.tid === props.tid ? color("accent") : color("text");
        const name = thread.name || "thread";
        const text = gutter > 100 ? `${name} ${thread.tid}` : name;
        g.fillText(text, 4, y + LANE / 2 + 1, gutter - 10);
      });
    };

    const drawMarks = () => {
      for (const m of marks) {
        const x = xOf(m.ns);
        if (xOf(m.to) < gutter || x > width) continue;
        const row = shown.findIndex((t) => t.tid === m.tid);
        const y = top + Math.max(0, row) * (LANE + GAP);
        g.fillStyle = g.strokeStyle = color(m.kind);
        if (m.kind === "stall") {
          if (row < 0) continue;
          const queued = lanes.get(m.tid)?.queued;
          const low = Math.max(Math.floor(x), gutter);
          const high = Math.min(width, Math.max(low + 2, Math.ceil(xOf(m.to))));
          for (let at = low; at < high; at++) {
            /* The time in which the machine was busy with other work is pale: it is not part of a stall's length. */
            g.globalAlpha = Math.max(0.35, 1 - (queued?.[at - gutter] ?? 0));
            g.fillRect(at, y - 2, 1, 3);
          }
          g.globalAlpha = 1;
        } else if (m.kind === "call") {
          if (row < 0) continue;
          g.beginPath();
          g.moveTo(x - 3, y + LANE);
          g.lineTo(x + 3, y + LANE);
          g.lineTo(x, y + LANE - 6);
          g.fill();
        } else {
          g.setLineDash(m.kind === "mark" ? [3, 3] : []);
          g.lineWidth = m.kind === "mark" ? 1 : 2;
          g.beginPath();
          g.moveTo(x, 0);
          g.lineTo(x, height - AXIS);
          g.stroke();
          g.setLineDash([]);
          g.lineWidth = 1;
          const text = m.kind === "crash" ? "crash" : m.text.slice(7);
          const wide = g.measureText(text).width;
          g.fillText(text, labelLeft(x, wide, gutter, width), 7);
        }
      }
    };

    const drawRange = () => {
      if (!isWhole(range)) {
        g.fillStyle = color("shade");
        const low = Math.max(gutter, xOf(range.from));
        const high = Math.min(width, xOf(Math.min(range.to, data.durationNs)));
        if (low > gutter) g.fillRect(gutter, 0, low - gutter, height - AXIS);
        if (high < width) g.fillRect(high, 0, width - high, height - AXIS);
        g.strokeStyle = color("accent");
        g.strokeRect(low + 0.5, 0.5, Math.max(1, high - low), height - AXIS - 1);
      }
      for (const ns of [cursor, props.moment]) {
        const x = ns === null ? 0 : Math.round(xOf(ns)) + 0.5;
        if (x < gutter || x > width) continue;
        g.strokeStyle = color("accent");
        g.beginPath();
        g.moveTo(x, 0);
        g.lineTo(x, height - AXIS);
        g.stroke();
      }
    };

    drawAxis();
    if (hasCurves) drawCurves();
    drawLanes();
    drawMarks();
    drawRange();
  }, [
    data,
    width,
    height,
    lanes,
    range,
    cursor,
    props.moment,
    window_,
    shown,
    marks,
    props.tid,
    scheme,
  ]);

  /* The memory at a moment, in words. */
  const memoryAt = (ns: number): string[] => {
    const value = (points: Point[]) => points.filter((p) => p.ns <= ns).at(-1)?.value;
    const heap = value(data.heap);
    const rss = value(data.rss);
    return [
      ...(heap === undefined ? [] : [`live heap ${bytes(heap)}`]),
      ...(rss === undefined ? [] : [`resident ${bytes(rss)}`]),
    ];
  };

  /* What is at a place of the canvas, in words. */
  const describe = (ns: number, y: number | null): string => {
    const step = length / columns;
    const parts = [`${seconds(ns, step)} s`];
    const row = y === null ? -1 : Math.floor((y - top) / (LANE + GAP));
    const tid = y === null ? props.tid : (shown[row]?.tid ?? 0);
    if (tid) parts.push(`${data.threadName(tid)}: ${stateAt(data, tid, ns).text}`);
    for (const m of marksAt(marks, ns, 4 * step).slice(0, 3))
      if (!tid || !m.tid || m.tid === tid) parts.push(m.text);
    return [...parts, ...memoryAt(ns)].join(" · ");
  };

  const select = (a: number, b: number) => {
    const from = Math.min(a, b);
    const to = Math.max(a, b);
    props.onRange(to > from ? { from, to } : WHOLE);
  };

  const position = (e: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    return { x: e.clientX - box.left, y: e.clientY - box.top };
  };

  const onDown = (e: PointerEvent) => {
    const { x, y } = position(e);
    if (e.button !== 0) return;
    if (x < gutter) {
      const row = Math.floor((y - top) / (LANE + GAP));
      const tid = shown[row]?.tid ?? 0;
      if (y >= top) props.onThread(tid === props.tid ? 0 : tid);
      return;
    }
    drag.current = nsOf(x);
    canvas.current!.setPointerCapture(e.pointerId);
  };

  const onMove = (e: PointerEvent) => {
    const { x, y } = position(e);
    const ns = nsOf(x);
    setCursor(x < gutter ? null : ns);
    setHint(x < gutter ? "" : describe(ns, y));
    if (drag.current !== null && Math.abs(xOf(drag.current) - x) > 3) select(drag.current, ns);
  };

  const onUp = (e: PointerEvent) => {
    if (drag.current === null) return;
    const ns = nsOf(position(e).x);
    if (Math.abs(xOf(drag.current) - xOf(ns)) <= 3) {
      props.onRange(WHOLE);
      props.onMoment(ns);
    }
    drag.current = null;
  };

  const onKey = (e: KeyboardEvent) => {
    const step = length / (e.ctrlKey ? 200 : 50);
    const at = cursor ?? (isWhole(range) ? window_.from : range.to);
    const move = (ns: number) => {
      const to = Math.min(data.durationNs, Math.max(0, ns));
      if (!e.shiftKey) anchor.current = null;
      else select((anchor.current ??= at), to);
      setCursor(to);
      setHint(describe(to, null));
    };
    const keys: Record<string, () => void> = {
      ArrowLeft: () => move(at - step),
      ArrowRight: () => move(at + step),
      Home: () => move(window_.from),
      End: () => move(window_.to),
      Enter: () => props.onMoment(at),
      Escape: () => {
        props.onRange(WHOLE);
        props.onMoment(null);
      },
      ...(props.onPeak && { p: props.onPeak }),
      "+": () => zoom(),
      "-": () => setWindow({ from: 0, to: data.durationNs }),
    };
    const action = keys[e.key];
    if (!action || e.altKey || e.metaKey) return;
    e.preventDefault();
    action();
  };

  const zoom = () => {
    if (!isWhole(range)) setWindow({ from: range.from, to: Math.min(range.to, data.durationNs) });
  };
  const zoomed = window_.from > 0 || window_.to < data.durationNs;
  const used = STATES.filter((s) => [...lanes.values()].some((l) => l[s].some((v) => v > 0.02)));

  return (
    <section class="timeline" aria-labelledby="timeline-title">
      <div class="bar">
        <h2 id="timeline-title">Time line</h2>
        <RangeFields data={data} range={range} onRange={props.onRange} />
        <button type="button" disabled={isWhole(range)} onClick={zoom}>
          Zoom in
        </button>
        {zoomed && (
          <button type="button" onClick={() => setWindow({ from: 0, to: data.durationNs })}>
            Zoom out
          </button>
        )}
        {props.onPeak && (
          <button type="button" onClick={props.onPeak}>
            Memory at the peak
          </button>
        )}
      </div>
      <div class="canvas">
        <canvas
          ref={canvas}
          tabIndex={0}
          role="application"
          aria-label="Time line. Left and right move the cursor, with Shift they select a range, Escape selects everything, plus zooms in, minus zooms out, P shows the memory at the peak."
          aria-describedby="timeline-hint"
          onPointerDown={onDown}
          onPointerMove={onMove}
          onPointerUp={onUp}
          onPointerLeave={() => {
            setCursor(null);
            setHint("");
          }}
          onKeyDown={onKey}
        />
      </div>
      <div class="bar under">
        <p id="timeline-hint" role="status">
          {hint || "Drag to select a range; click to choose a moment."}
        </p>
        <ul class="legend" aria-label="Colors">
          {data.heap.length > 0 && <li class="heap">live heap</li>}
          {data.rss.length > 0 && <li class="rss">resident memory</li>}
          {used.map((s) => (
            <li class={s} key={s}>
              {STATE_TEXT[s]}
            </li>
          ))}
          {marks.some((m) => m.kind === "stall") && <li class="stall">stall</li>}
          {marks.some((m) => m.kind === "call") && <li class="call">audited call</li>}
        </ul>
        {threads.length > LANES_SHOWN && (
          <button type="button" aria-expanded={all} onClick={() => setAll(!all)}>
            {all ? `Show ${LANES_SHOWN} threads` : `Show all ${threads.length} threads`}
          </button>
        )}
      </div>
      {props.moment !== null && (
        <Moment
          data={data}
          ns={props.moment}
          memory={memoryAt(props.moment)}
          marks={marksAt(marks, props.moment, (4 * length) / columns)}
          threads={shown}
          around={length / AROUND}
          onRange={select}
          onThread={props.onThread}
          onClose={() => props.onMoment(null)}
        />
      )}
    </section>
  );
}

function RangeFields(props: { data: Data; range: Range; onRange: (range: Range) => void }) {
  const { data, range } = props;
  const bin = binNs(data);
  const end = Math.min(range.to, data.durationNs);
  const change = (field: "from" | "to") => (e: Event) => {
    const ns = Number((e.target as HTMLInputElement).value) * 1e9;
    const next = { ...range, [field]: ns };
    if (Number.isFinite(ns) && next.from < next.to) props.onRange(next);
  };
  const length = `${duration(end - range.from)} of ${duration(data.durationNs)}`;
  return (
    <div class="range">
      <label>
        from{" "}
        <input
          type="number"
          step="any"
          min="0"
          value={exactSeconds(range.from)}
          onChange={change("from")}
        />
      </label>
      <label>
        to{" "}
        <input type="number" step="any" min="0" value={exactSeconds(end)} onChange={change("to")} />
      </label>
      <span class="unit">
        s ({length}
        {!isWhole(range) && bin > 1000 ? `, in steps of ${duration(bin)}` : ""})
      </span>
      <button type="button" disabled={isWhole(range)} onClick={() => props.onRange(WHOLE)}>
        Select all
      </button>
    </div>
  );
}
