// SPDX-License-Identifier: MIT
//
// A call tree as a flame graph or an icicle. Each function is an element, so that screen readers and
// the browser's search find it. Parts narrower than two pixels are not drawn; zooming shows them.
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Data } from "./data";
import { percent, place } from "./format";
import { matches, TreeNode } from "./model";

const ROW = 19;
const LEAST = 2;
const ELEMENTS_MAX = 3000;

interface Box {
  node: TreeNode;
  parent: Box | null;
  x: number; // shares of the width
  width: number;
  depth: number;
}

/** The boxes below ROOT that are at least LEAST pixels wide. */
function layout(root: TreeNode, zoom: TreeNode[], pixels: number): Box[] {
  const boxes: Box[] = [];
  let above: Box | null = null;
  for (let i = 0; i < zoom.length; i++) {
    above = { node: zoom[i], parent: above, x: 0, width: 1, depth: i };
    boxes.push(above);
  }
  const start = zoom[zoom.length - 1] ?? root;
  const open: Box[] = [above ?? { node: root, parent: null, x: 0, width: 1, depth: -1 }];
  if (!start.weight) return boxes;
  for (let at = 0; at < open.length && boxes.length < ELEMENTS_MAX; at++) {
    const box = open[at];
    let x = box.x;
    for (const node of box.node.children) {
      const width = node.weight / start.weight;
      if (node.at !== undefined) x = box.x + node.at / start.weight;
      if (width * pixels >= LEAST) {
        const next = { node, parent: box.node.fn ? box : null, x, width, depth: box.depth + 1 };
        boxes.push(next);
        open.push(next);
      }
      x += width;
    }
  }
  return boxes;
}

function kindOf(box: Box): string {
  const fn = box.node.fn!;
  return fn.own ? "own" : fn.system ? "system" : "library";
}

interface Props {
  data: Data;
  root: TreeNode;
  up: boolean; // the root at the bottom
  amount: (weight: number) => string;
  pattern: RegExp | null;
  label: string;
  /** Instead of whose code it is: a class of style.css. */
  kind?: (node: TreeNode) => string;
  /** A part of the description. */
  extra?: (node: TreeNode) => string;
}

export function Flame({ data, root, up, amount, pattern, label, kind, extra }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const scroll = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(0);
  const [zoom, setZoom] = useState<TreeNode[]>([]);
  const [focus, setFocus] = useState(0);
  const [hint, setHint] = useState("");

  useEffect(() => {
    const element = frame.current!;
    const observer = new ResizeObserver(() => setWidth(element.clientWidth));
    observer.observe(element);
    setWidth(element.clientWidth);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    setZoom([]);
    setFocus(0);
  }, [root]);

  const boxes = useMemo(() => layout(root, zoom, width), [root, zoom, width]);
  const depth = boxes.reduce((most, b) => Math.max(most, b.depth + 1), 1);
  useEffect(() => {
    scroll.current!.scrollTop = up ? scroll.current!.scrollHeight : 0;
  }, [up, root, depth]);
  const matched = useMemo(() => (pattern ? matchedWeight(root, pattern) : 0), [root, pattern]);

  const text = (box: Box) => {
    const fn = box.node.fn!;
    const line = data.raw.frames.line[box.node.frame];
    const where = place(fn.file, line || fn.line, fn.library);
    const more = extra ? `, ${extra(box.node)}` : "";
    const share = percent(box.node.weight, root.weight);
    return `${fn.name}, ${amount(box.node.weight)}, ${share}${more}, ${where}`;
  };
  const zoomTo = (box: Box) => {
    const path: TreeNode[] = [];
    for (let b: Box | null = box; b; b = b.parent) path.unshift(b.node);
    const same = zoom[zoom.length - 1] === box.node;
    setZoom(same ? zoom.slice(0, -1) : path);
    setFocus(same ? 0 : path.length - 1);
  };
  const go = (index: number) => {
    if (index < 0) return;
    setFocus(index);
    (frame.current!.children[index] as HTMLElement)?.focus();
  };
  const onKey = (e: KeyboardEvent) => {
    const box = boxes[focus];
    if (!box) return;
    const inner = () => boxes.findIndex((b) => b.parent === box);
    const outer = () => (box.parent ? boxes.indexOf(box.parent) : -1);
    const row = boxes.filter((b) => b.depth === box.depth);
    const beside = (by: number) => {
      const next = row[row.indexOf(box) + by];
      return next ? boxes.indexOf(next) : -1;
    };
    const keys: Record<string, () => void> = {
      ArrowUp: () => go(up ? inner() : outer()),
      ArrowDown: () => go(up ? outer() : inner()),
      ArrowLeft: () => go(beside(-1)),
      ArrowRight: () => go(beside(1)),
      Enter: () => zoomTo(box),
      " ": () => zoomTo(box),
      Escape: () => setZoom([]),
    };
    const action = keys[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  };

  return (
    <div class="flame">
      <div class="bar">
        <p role="status" class="hint">
          {hint ||
            (pattern
              ? `The search matches ${amount(matched)}, ${percent(matched, root.weight)}.`
              : "Click a function to zoom in, and again to zoom out.")}
        </p>
        {boxes.length > 0 && !kind && (
          <ul class="legend" aria-label="Colors of functions">
            <li class="own">own code</li>
            <li class="library">libraries and headers</li>
            <li class="system">system</li>
          </ul>
        )}
        {zoom.length > 0 && (
          <button type="button" onClick={() => setZoom([])}>
            Whole graph
          </button>
        )}
      </div>
      {boxes.length === 0 && <p class="empty">Nothing in this range.</p>}
      <div class="graph" ref={scroll}>
        <div
          class="boxes"
          ref={frame}
          role={boxes.length ? "tree" : undefined}
          aria-label={boxes.length ? label : undefined}
          style={{ height: `${boxes.length ? depth * ROW : 0}px` }}
          onKeyDown={onKey}
          onPointerLeave={() => setHint("")}
        >
          {boxes.map((box, i) => {
            const fn = box.node.fn!;
            const found = pattern && matches(fn, pattern);
            const row = up ? depth - 1 - box.depth : box.depth;
            return (
              <div
                key={i}
                role="treeitem"
                aria-level={box.depth + 1}
                aria-label={text(box)}
                aria-selected={zoom[zoom.length - 1] === box.node}
                tabIndex={i === Math.min(focus, boxes.length - 1) ? 0 : -1}
                class={`box ${kind ? kind(box.node) : kindOf(box)}${found ? " found" : ""}${pattern && !found ? " other" : ""}`}
                style={{
                  left: `${box.x * 100}%`,
                  width: `calc(${box.width * 100}% - 1px)`,
                  top: `${row * ROW}px`,
                }}
                onClick={() => zoomTo(box)}
                onFocus={() => {
                  setFocus(i);
                  setHint(text(box));
                }}
                onPointerEnter={() => setHint(text(box))}
              >
                {box.width * width > 24 ? fn.short : ""}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

/** The weight of the stacks that contain a match; nested matches count once. */
function matchedWeight(root: TreeNode, pattern: RegExp): number {
  let sum = 0;
  const open = [...root.children];
  for (let node = open.pop(); node; node = open.pop())
    if (matches(node.fn!, pattern)) sum += node.weight;
    else open.push(...node.children);
  return sum;
}
