// SPDX-License-Identifier: MIT
//
// Drives pages in headless Chromium as a user does, and compares their figures with the report. One browser is
// started for all pages.
// usage: node browser.mjs CHROMIUM     reads lines {"page": PATH, "report": PATH, "checks": [NAME…]}, whose checks are
// the functions below. Prints a line for each: the failures, as a list.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";
import { compareSelections } from "./selections.mjs";

let report;
const axeSource = readFileSync(
  createRequire(import.meta.url).resolve("axe-core/axe.min.js"),
  "utf8",
);
let failures = [];

function check(good, what) {
  if (!good) failures.push(what);
}

function equal(found, expected, what) {
  const [a, b] = [JSON.stringify(found), JSON.stringify(expected)];
  check(a === b, `${what}: ${a}, expected ${b}`);
}

const number = (text) => Number(text.replace(/[^0-9.]/g, ""));
const tab = (page, name) => page.click(`#tab-${name}`);
const press = (page, group, name) =>
  page.click(`#panel [aria-label="${group}"] button:text-is("${name}")`);

/** The rows of the first table of the view: the title of the name, and the texts of the cells. */
async function rows(page) {
  for (;;) {
    const more = page.locator('#panel .table > button:has-text("more of")').first();
    if (!(await more.count())) break;
    await more.click();
  }
  return page.$$eval("#panel table >> nth=0 >> tbody tr", (all) =>
    all.map((row) => ({
      name: row.querySelector(".name")?.title ?? "",
      cells: [...row.cells].map((c) => c.textContent),
    })),
  );
}

// ---- the checks --------------------------------------------------------------------------------

const checks = {
  answer,
  /** The figures of a whole recording. */
  async figures(page) {
    if (report.sample?.samples) await cpuFigures(page);
    if (report.malloc?.events) await memoryFigures(page);
    if (report.waits?.time_ns) await waitFigures(page);
    if (report.stalls?.stalls?.length) {
      await tab(page, "stalls");
      equal(number(await page.textContent("#stall-count")), report.stalls.stalls.length, "stalls");
    }
    if (report.trace?.calls) {
      await tab(page, "calls");
      equal(number(await page.textContent("#call-count")), report.trace.calls, "calls");
      const shown = (await rows(page)).map((r) => [r.cells[0], number(r.cells[1])]);
      equal(shown.length, report.trace.functions.length, "traced functions");
    }
    if (report.audit?.findings?.length) {
      await tab(page, "audit");
      equal(number(await page.textContent("#audit-count")), report.audit.findings.length, "audit");
    }
    if (report.usage?.rss_bytes) await resourceFigures(page);
    equal(
      await page.$$eval(".why > li > p:first-child", (all) => all.map((p) => p.textContent)),
      report.why.findings.map((f) => f.sentence),
      "the sentences",
    );
  },

  /** Two ranges that touch add up to the whole, by the fields and by dragging. */
  async ranges(page) {
    await tab(page, "cpu");
    const samples = async () => number(await page.textContent("#cpu-samples"));
    const whole = await samples();
    const middle = String(report.duration_ns / 2e9);
    const [from, to] = [page.getByLabel("from"), page.getByLabel("to", { exact: true })];
    await to.fill(middle);
    await to.blur();
    const first = await samples();
    await page.click('button:text-is("Select all")');
    await from.fill(middle);
    await from.blur();
    const second = await samples();
    equal(first + second, whole, "samples of two ranges");
    check(first < whole, "a range has fewer samples");
    await page.click('button:text-is("Select all")');
    equal(await samples(), whole, "samples after 'Select all'");
    const box = await page.locator(".timeline canvas").boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.6, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.95, y, { steps: 4 });
    await page.mouse.up();
    check((await samples()) < whole, "dragging selects a range");
    if (report.malloc?.allocated && (await page.locator("#tab-memory").count())) {
      await tab(page, "memory");
      await press(page, "Blocks", "Still live");
      const kept = Number(await page.getAttribute("#memory-bytes", "data-bytes"));
      await press(page, "Blocks", "Allocated");
      const allocated = Number(await page.getAttribute("#memory-bytes", "data-bytes"));
      check(kept <= allocated, "more is live than was allocated in the range");
      check(allocated < report.malloc.allocated.bytes, "a range has fewer bytes");
    }
    await page.click('button:text-is("Select all")');
    await to.fill(middle);
    await to.blur();
    const before = await usedResources(page);
    await page.click('button:text-is("Select all")');
    await from.fill(middle);
    await from.blur();
    const after = await usedResources(page);
    for (const [key, { first, last, peak }] of Object.entries(after)) {
      equal(first, before[key].last, `${key} at the middle`);
      check(peak <= report.usage[key].peak && peak >= Math.max(first, last), `peak of ${key}`);
    }
    await page.click('button:text-is("Zoom in")');
    await page.click('button:text-is("Zoom out")');
  },

  /** A selection snaps to bins, which are shown; REPORT is that of the snapped range. */
  async bins(page) {
    const { asked, snapped, text } = report;
    await select(page, "from", asked[0]);
    await select(page, "to", asked[1]);
    const shown = async () =>
      [await fieldOf(page, "from").inputValue(), await fieldOf(page, "to").inputValue()].map(
        Number,
      );
    equal(await shown(), snapped, "the snapped range");
    check((await page.textContent(".range .unit")).includes(text), `no '${text}'`);
    await tab(page, "cpu");
    equal(
      number(await page.textContent("#cpu-samples")),
      report.report.sample.samples,
      "samples of the range",
    );
    await tab(page, "memory");
    await press(page, "Blocks", "Allocated");
    equal(
      Number(await page.getAttribute("#memory-bytes", "data-bytes")),
      report.report.malloc.allocated.bytes,
      "bytes allocated in the range",
    );
    const box = await page.locator(".timeline canvas").boundingBox();
    const y = box.y + box.height / 2;
    await page.mouse.move(box.x + box.width * 0.4, y);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.7, y, { steps: 3 });
    await page.mouse.up();
    for (const end of await shown())
      equal(Math.round(end * 1e9) % report.bin, 0, `the end ${end} after dragging`);
    await page.click('button:text-is("Select all")');
    await page.focus(".timeline canvas");
    await page.keyboard.press("Home");
    for (let i = 0; i < 25; i++) await page.keyboard.press("ArrowRight");
    for (let i = 0; i < 4; i++) await page.keyboard.press("Shift+ArrowLeft");
    const [from, to] = await shown();
    check(
      to - from >= report.seconds * 0.08 - report.bin / 1e9 - 1e-9,
      `Shift and Left select ${from} to ${to}`,
    );
  },

  /** REPORT is a list of ranges, each with its report. */
  async selections(page) {
    await compareSelections(page, report, {
      check,
      equal,
      fieldOf,
      namedFigures,
      number,
      press,
      rows,
      select,
      sumsByName,
      tab,
    });
  },

  /** Traced calls: the report's list of slowest calls has all of them. */
  async nesting(page) {
    const all = report.trace.slowest.sort((a, b) => a.start_ns - b.start_ns);
    equal(all.length, report.trace.calls, "calls in the report");
    await tab(page, "calls");
    const shown = await rows(page);
    equal(
      shown.map((r) => [r.name, number(r.cells[1])]),
      report.trace.functions.map((f) => [f.function, f.calls]),
      "calls by function",
    );
    await callsInRange(page, all);
    await page.click('button:text-is("Select all")');
    for (const tid of new Set(all.map((c) => c.tid))) {
      await page.selectOption(".filters select >> nth=0", String(tid));
      await press(page, "Form", "Functions");
      await sumsOfCalls(
        page,
        all.filter((c) => c.tid === tid),
        `thread ${tid}`,
      );
    }
    await page.selectOption(".filters select >> nth=0", "0");
    await press(page, "Form", "Slowest calls");
    equal((await rows(page)).length, all.length, "single calls");
    const longest = all.reduce((a, b) => (b.took_ns > a.took_ns ? b : a));
    await page.click("#panel .open >> nth=0");
    await nestedCalls(page, longest, all);
    await axe(page, "a slow call");
    await press(page, "Form", "In order of time");
    await page.locator("#panel .box").first().waitFor();
  },

  /** The names of the table are the short ones; the title has the whole name. */
  async names(page) {
    const shown = await page.$$eval("#panel td .name", (all) =>
      all.map((name) => [name.textContent, name.title]),
    );
    for (const [short, name] of Object.entries(report))
      equal(Object.fromEntries(shown)[short], name, `the title of ${short}`);
    await page.getByRole("searchbox", { name: "Search" }).fill("basic_string<char");
    equal((await rows(page)).length, 1, "rows with a part of the whole name");
  },

  /** The source text, and the samples by line: those of the report's stacks. */
  async sources(page) {
    const file = report.sample.stacks
      .flatMap((s) => s.frames)
      .find((f) => f.function === "main").file;
    const text = readFileSync(file, "utf8").split("\n").slice(0, -1);
    await tab(page, "cpu");
    await page.click('#panel tr:has(.name[title="hot"]) button:has(.place)');
    equal(
      await page.getAttribute("#tab-source", "aria-selected"),
      "true",
      "a place opens its source",
    );
    await page.selectOption("#source-file", { label: await optionOf(page, file) });
    const shown = await page.$$eval("#panel tr[data-line]", (all) =>
      all.map((row) => ({ ...row.dataset, text: row.querySelector("code").textContent })),
    );
    equal(
      shown.map((row) => row.text),
      text,
      "the text",
    );
    const expected = samplesByLine(file);
    check(expected.size > 2, `lines with samples: ${[...expected.keys()]}`);
    for (const row of shown) {
      const { self, total } = expected.get(Number(row.line)) ?? {};
      equal(
        [Number(row.self ?? 0), Number(row.total ?? 0)],
        [self ?? 0, total ?? 0],
        `line ${row.line}`,
      );
    }
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await axe(page, `source, ${colorScheme}`);
    }
  },

  /** A range, a library and "own code" keep those findings of the audit that the report has for them. */
  async findings(page) {
    const all = report.audit.findings;
    const fileName = (path) => path.slice(path.lastIndexOf("/") + 1);
    const count = async () => number(await page.textContent("#audit-count"));
    await tab(page, "audit");
    const times = all.map((f) => f.first_ns).sort((a, b) => a - b);
    await select(page, "to", times[Math.floor(times.length / 2)] / 1e9);
    const to = Number(await fieldOf(page, "to").inputValue()) * 1e9;
    equal(await count(), all.filter((f) => f.first_ns < to).length, "findings of a range");
    await page.click('button:text-is("Select all")');
    const library = fileName(all[0].module);
    await page.selectOption(".filters select >> nth=1", library);
    const isIn = (f) => [f, ...f.frames].some((x) => x.module && fileName(x.module) === library);
    equal(await count(), all.filter(isIn).length, `findings of ${library}`);
    await page.selectOption(".filters select >> nth=1", "");
    await page.getByLabel("own code only").check();
    const own = all.filter((f) => fileName(f.module) === fileName(report.exe)).length;
    equal(await count(), own, "findings of the program");
  },

  /** A search narrows the table, marks the graph, and reports a wrong expression. */
  async search(page) {
    await tab(page, "cpu");
    const field = page.getByRole("searchbox", { name: "Search" });
    const before = (await rows(page)).length;
    const name = (await rows(page))[0].name;
    await field.fill(`^${name.slice(0, 6).replace(/\W/g, ".")}`);
    const after = await rows(page);
    check(after.length > 0 && after.length <= before, "the search finds the first function");
    await press(page, "Form", "Icicle");
    await page.locator(".box.found").first().waitFor();
    await field.fill("(");
    check(await page.locator("#search-error").isVisible(), "a wrong expression is reported");
    await field.fill("");
  },

  /** Each view in each form has content. */
  async views(page) {
    await eachForm(page, "#panel .box, #panel tbody tr");
  },

  /** Each view in each form has content, or says that there is none. */
  async forms(page) {
    await eachForm(page, "#panel .box, #panel tbody tr, #panel .empty");
  },

  /** Without a mouse: the time line, the tabs, a graph, and its zoom. */
  async keyboard(page) {
    const focused = () =>
      page.evaluate(() => document.activeElement.getAttribute("aria-label") ?? "");
    for (let i = 0; i < 30 && !(await focused()).startsWith("Time line"); i++)
      await page.keyboard.press("Tab");
    check((await focused()).startsWith("Time line"), "Tab reaches the time line");
    for (let i = 0; i < 10; i++) await page.keyboard.press("ArrowRight");
    for (let i = 0; i < 20; i++) await page.keyboard.press("Shift+ArrowRight");
    check(
      await page.locator('button:text-is("Select all")').isEnabled(),
      "Shift and arrows select a range",
    );
    check((await page.textContent("#timeline-hint")).includes(" s"), "the cursor is described");
    await page.keyboard.press("Escape");
    check(await page.locator('button:text-is("Select all")').isDisabled(), "Escape selects all");
    const role = () => page.evaluate(() => document.activeElement.getAttribute("role"));
    for (let i = 0; i < 30 && (await role()) !== "tab"; i++) await page.keyboard.press("Tab");
    equal(await role(), "tab", "Tab reaches the views");
    const tabs = await page.locator("[role=tab]").count();
    for (let i = 0; i < tabs; i++) await page.keyboard.press("ArrowRight");
    equal(
      await page.getAttribute("[role=tab] >> nth=0", "aria-selected"),
      "true",
      "the views wrap",
    );
    await tab(page, "cpu");
    await page.focus('#panel [aria-label="Form"] button >> nth=2');
    await page.keyboard.press("Enter");
    for (let i = 0; i < 10 && (await role()) !== "treeitem"; i++) await page.keyboard.press("Tab");
    equal(await role(), "treeitem", "Tab reaches the graph");
    const outer = await focused();
    await page.keyboard.press("ArrowDown");
    const inner = await focused();
    check(inner && inner !== outer, "an arrow moves to the callee");
    await page.keyboard.press("Enter");
    check(
      await page.locator('button:text-is("Whole graph")').isVisible(),
      "Enter zooms into a function",
    );
    await page.keyboard.press("Escape");
    equal(await page.locator('button:text-is("Whole graph")').count(), 0, "Escape zooms out");
  },

  /** One click or key shows who holds memory at the peak, whatever is shown and selected. */
  async peak(page) {
    const middle = page.getByLabel("to", { exact: true });
    await middle.fill(String(report.duration_ns / 2e9));
    await middle.blur();
    await tab(page, "memory");
    await press(page, "Blocks", "Never freed");
    await tab(page, "cpu");
    await page.click('.timeline button:text-is("Memory at the peak")');
    equal(await page.getAttribute("#tab-memory", "aria-selected"), "true", "the button's view");
    await peakTable(page);
    check((await page.textContent("#panel .sum")).includes("whole recording"), "the peak's range");
    await press(page, "Blocks", "Allocated");
    await tab(page, "cpu");
    await page.focus(".timeline canvas");
    await page.keyboard.press("p");
    equal(await page.getAttribute("#tab-memory", "aria-selected"), "true", "the key's view");
    await peakTable(page);
    await tab(page, "cpu");
    await page.click(".glance [data-key=leaked] button");
    equal(await page.getAttribute("#tab-memory", "aria-selected"), "true", "the figure's view");
    equal(
      Number(await page.getAttribute("#memory-bytes", "data-bytes")),
      report.malloc.live.bytes,
      "bytes that were never freed, of the whole recording",
    );
  },

  /** A click on the time line tells what each thread did then; its button selects the time around it. */
  async moment(page) {
    const box = await page.locator(".timeline canvas").boundingBox();
    await page.mouse.click(box.x + box.width * 0.6, box.y + box.height / 2);
    const title = await page.textContent("#moment-title");
    const at = Number(/^At ([\d.]+) s/.exec(title)?.[1]);
    const seconds = report.duration_ns / 1e9;
    check(at > seconds * 0.4 && at < seconds * 0.7, `the moment is '${title}'`);
    const threads = await page.$$eval(".moment li", (all) => all.map((li) => li.textContent));
    check(threads.length > 0, "no thread at the moment");
    await axe(page, "a moment");
    await page.click('.moment button:text("around it")');
    const [from, to] = [
      Number(await fieldOf(page, "from").inputValue()),
      Number(await fieldOf(page, "to").inputValue()),
    ];
    check(from < at && at < to && to - from < seconds / 10, `${from} to ${to} around ${at}`);
    await page.click('.moment button:text-is("Close")');
    equal(await page.locator(".moment").count(), 0, "moments after 'Close'");
    await page.focus(".timeline canvas");
    await page.keyboard.press("Enter");
    equal(await page.locator(".moment").count(), 1, "moments after Enter");
    await page.keyboard.press("Escape");
    equal(await page.locator(".moment").count(), 0, "moments after Escape");
  },

  /** Nothing is wider than the screen of a phone, nor lost on a wide one. */
  async sizes(page) {
    for (const [width, height] of [
      [320, 640],
      [3840, 2160],
    ]) {
      await page.setViewportSize({ width, height });
      for (const name of await page.$$eval("[role=tab]", (all) => all.map((t) => t.id.slice(4)))) {
        await tab(page, name);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth);
        check(wide <= width, `the view ${name} is ${wide} wide on a screen of ${width}`);
      }
    }
  },

  /** axe-core finds nothing serious in any view, light or dark. Only colors differ between these. */
  async accessibility(page) {
    for (const colorScheme of ["light", "dark"]) {
      const rules = colorScheme === "dark" ? ["color-contrast"] : undefined;
      await page.emulateMedia({ colorScheme });
      for (const name of await page.$$eval("[role=tab]", (all) => all.map((t) => t.id.slice(4)))) {
        await tab(page, name);
        await axe(page, `${name}, ${colorScheme}`, rules);
        if (name !== "cpu") continue;
        await press(page, "Form", "Icicle");
        await axe(page, `icicle, ${colorScheme}`, rules);
      }
    }
  },

  /** The totals of two recordings; the report is that of `sonde diff --json` for the peak. */
  async changes(page) {
    await tab(page, "diff");
    await press(page, "Measure", "Peak");
    const value = async (id) => Number(await page.getAttribute(id, "data-value"));
    equal(await value("#diff-old"), report.old, "bytes at the old peak");
    equal(await value("#diff-new"), report.new, "bytes at the new peak");
    for (const form of ["Icicle", "Flame graph", "Functions"]) {
      await press(page, "Form", form);
      await page.locator("#panel .box, #panel tbody tr").first().waitFor();
      await axe(page, `changes as ${form}`);
    }
  },

  /** The page can be opened. The console is checked for all. */
  async opens(page) {
    check((await page.title()).endsWith("– sonde"), "the title");
  },
};

const fieldOf = (page, end) => page.getByLabel(end, { exact: true });

async function select(page, end, seconds) {
  const field = fieldOf(page, end);
  await field.fill(String(seconds));
  await field.blur();
}

/** By key: what is shown of the range. */
async function usedResources(page) {
  await tab(page, "resources");
  const shown = await page.$$eval("#panel [data-key]", (all) => all.map((e) => ({ ...e.dataset })));
  return Object.fromEntries(
    shown.map(({ key, ...values }) => [
      key,
      Object.fromEntries(Object.entries(values).map(([name, text]) => [name, Number(text)])),
    ]),
  );
}

async function eachForm(page, content) {
  for (const name of await page.$$eval("[role=tab]", (all) => all.map((t) => t.id.slice(4)))) {
    await tab(page, name);
    const forms = await page.$$eval('#panel [aria-label="Form"] button', (all) =>
      all.map((b) => b.textContent),
    );
    for (const form of forms) {
      await press(page, "Form", form);
      await page
        .locator(content)
        .first()
        .waitFor({ timeout: 10000 })
        .catch(() => check(false, `the view ${name} as ${form} is empty`));
    }
  }
}

/** RULES: all, or the names of some. */
async function axe(page, where, rules) {
  await page.evaluate(axeSource);
  const options = { resultTypes: ["violations"], ...(rules && { runOnly: rules }) };
  const { violations } = await page.evaluate((o) => window.axe.run(o), options);
  for (const v of violations)
    if (v.impact === "serious" || v.impact === "critical")
      check(false, `${where}: ${v.id}: ${v.help}: ${v.nodes[0].html.slice(0, 160)}`);
}

/** The figures of a column by name: functions of several libraries may have one name. */
function namedFigures(all, column) {
  const found = new Map();
  for (const r of all) found.set(r.name, [...(found.get(r.name) ?? []), number(r.cells[column])]);
  return found;
}

/** Of rows of the report: functions of several libraries or files may have one name. */
function sumsByName(all, value) {
  const sums = new Map();
  for (const f of all) sums.set(f.function, (sums.get(f.function) ?? 0) + value(f));
  return sums;
}

async function cpuFigures(page) {
  await tab(page, "cpu");
  equal(number(await page.textContent("#cpu-samples")), report.sample.samples, "samples");
  const shown = namedFigures(await rows(page), 5);
  for (const f of report.sample.functions)
    check(
      shown.get(f.function)?.includes(f.total),
      `total samples of ${f.function}: ${shown.get(f.function)}, expected ${f.total}`,
    );
}

async function memoryFigures(page) {
  const { malloc } = report;
  await tab(page, "memory");
  const bytes = async (mode) => {
    await press(page, "Blocks", mode);
    return Number(await page.getAttribute("#memory-bytes", "data-bytes"));
  };
  equal(await bytes("At the peak"), malloc.peak.bytes, "bytes at the peak");
  equal(await bytes("Never freed"), malloc.live.bytes, "bytes that were never freed");
  if (malloc.allocated) equal(await bytes("Allocated"), malloc.allocated.bytes, "allocated bytes");
  if (malloc.temporary && !malloc.sampled) {
    await bytes("Temporary");
    const text = await page.textContent("#panel .sum");
    equal(number(/in ([\d,]+) blocks/.exec(text)[1]), malloc.temporary, "temporary allocations");
  }
  await bytes("At the peak");
  await peakTable(page);
}

/** The view of memory shows the table of the report, which adds up the functions of one name. */
async function peakTable(page) {
  const { malloc } = report;
  equal(
    Number(await page.getAttribute("#memory-bytes", "data-bytes")),
    malloc.peak.bytes,
    "bytes at the peak",
  );
  const blocks = namedFigures(await rows(page), 3);
  const held = malloc.functions.filter((f) => f.peak.bytes);
  check(held.length > 0, "no function holds memory at the peak");
  for (const [name, expected] of sumsByName(held, (f) => f.peak.blocks))
    equal(
      blocks.get(name)?.reduce((sum, n) => sum + n, 0),
      expected,
      `blocks of ${name} at the peak`,
    );
}

/** The table is of calls that began in a range, whose end is where no call begins. */
async function callsInRange(page, all) {
  const gap = (i) => all[i + 1].start_ns - all[i].start_ns;
  const widest = all.slice(0, -1).reduce((best, _, i) => (gap(i) > gap(best) ? i : best), 0);
  const end = all[widest].start_ns + gap(widest) / 2;
  const to = page.getByLabel("to", { exact: true });
  await to.fill(String(end / 1e9));
  await to.blur();
  await sumsOfCalls(page, all.slice(0, widest + 1), "a range");
}

async function sumsOfCalls(page, calls, where) {
  equal(number(await page.textContent("#call-count")), calls.length, `calls in ${where}`);
  const counts = {};
  for (const c of calls) counts[c.function] = (counts[c.function] ?? 0) + 1;
  const shown = Object.fromEntries((await rows(page)).map((r) => [r.name, number(r.cells[1])]));
  for (const name of Object.keys(counts))
    equal(shown[name], counts[name], `calls of ${name} in ${where}`);
  equal(Object.keys(shown).length, Object.keys(counts).length, `functions in ${where}`);
}

async function optionOf(page, file) {
  const all = await page.$$eval("#source-file option", (o) => o.map((e) => e.textContent));
  return all.find((text) => text.endsWith(file));
}

/** Samples of a file by line; a line counts once in a stack. */
function samplesByLine(file) {
  const sums = new Map();
  for (const { frames, samples } of report.sample.stacks) {
    const lines = new Set(frames.filter((f) => f.file === file).map((f) => f.line));
    for (const line of lines) {
      const sum = sums.get(line) ?? { self: 0, total: 0 };
      sum.total += samples;
      if (frames[0].file === file && frames[0].line === line) sum.self += samples;
      sums.set(line, sum);
    }
  }
  return sums;
}

/** The graph of the call TOP has the calls inside it at their levels, unless they are too narrow. */
async function nestedCalls(page, top, all) {
  const parents = new Map(report.trace.nodes.map((n) => [n.node, n.parent]));
  const depth = (node) => (node ? 1 + depth(parents.get(node)) : 0);
  const end = top.start_ns + top.took_ns;
  const width = await page.$eval("#panel .boxes", (e) => e.clientWidth);
  const inside = all.filter(
    (c) => c.tid === top.tid && c.start_ns >= top.start_ns && c.start_ns + c.took_ns <= end + 1,
  );
  const shown = await page.$$eval("#panel .box", (boxes) =>
    boxes.map((b) => `${b.ariaLevel} ${b.ariaLabel.slice(0, b.ariaLabel.indexOf(","))}`),
  );
  const counts = (names) => names.reduce((sums, n) => ({ ...sums, [n]: (sums[n] ?? 0) + 1 }), {});
  const keyOf = (c) => `${depth(c.node) - depth(top.node) + 1} ${c.function}`;
  const pixels = (c) => (c.took_ns / top.took_ns) * width;
  const least = counts(inside.filter((c) => pixels(c) > 2.01).map(keyOf));
  const most = counts(inside.filter((c) => pixels(c) > 1.99).map(keyOf));
  const found = counts(shown);
  check(Object.keys(found).length > 1, `the graph has ${Object.keys(found)}`);
  for (const key of new Set([...Object.keys(found), ...Object.keys(least)]))
    check(
      found[key] >= (least[key] ?? 0) && found[key] <= (most[key] ?? 0),
      `boxes '${key}': ${found[key]}, expected ${least[key]} to ${most[key]}`,
    );
}

/** The page of an answer: REPORT is what `sonde query --json` prints. */
async function answer(page) {
  const count = async () => number(await page.textContent("#answer-count"));
  const body = () => page.$$eval(".table tbody tr:not(.detail)", (all) => all.length);
  equal(await count(), report.rows.length, "rows of the answer");
  equal(await body(), Math.min(100, report.rows.length), "rows of the table");
  await page.click(".table tbody .open >> nth=0");
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await axe(page, `answer, ${colorScheme}`);
  }
  const frames = await page.$$eval(".detail .stack code", (all) => all.map((c) => c.textContent));
  check(frames.includes(report.rows[0].function.split(" (")[0]), `frames: ${frames}`);
  const wanted = report.rows[0].stack;
  await page.fill('input[type="search"]', wanted);
  equal(await count(), report.rows.filter((r) => r.stack === wanted).length, "rows with a stack");
  await page.fill('input[type="search"]', "");
  await page.click('.table th button:text-is("growth bytes")');
  const shown = await page.$$eval(".table tbody tr", (all) => all[0].textContent);
  const most = report.rows.reduce((a, b) => (b.growth_bytes > a.growth_bytes ? b : a));
  check(shown.includes(most.stack), `the first row is ${shown}`);
}

async function resourceFigures(page) {
  const used = await usedResources(page);
  check(used.rss_bytes && used.minor_faults && used.descriptors, "the resources are shown");
  for (const [key, shown] of Object.entries(used))
    for (const which of ["first", "last", "peak"])
      equal(shown[which], usedValue(key, which), `${which} of ${key}`);
}

/** The kernel's own peak of resident memory is that of the report, too. */
function usedValue(key, which) {
  const { usage } = report;
  if (key !== "rss_bytes" || which !== "peak") return usage[key][which];
  return Math.max(usage.rss_bytes.peak, usage.peak_rss_bytes?.peak ?? 0);
}

async function waitFigures(page) {
  await tab(page, "waits");
  const shown = Number(await page.getAttribute("#wait-time", "data-ns"));
  const expected = report.waits.time_ns;
  /* The report rounds each wait down to a nanosecond. */
  const most = report.waits.waits.length + 1;
  check(Math.abs(shown - expected) <= most, `blocked time: ${shown}, expected ${expected}`);
}

// ---- the browser -------------------------------------------------------------------------------

const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"],
});

/** Opens the page as new for each check, since a check leaves it changed. */
async function drive(path, wanted) {
  for (const name of wanted) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
    const page = await context.newPage();
    page.on("console", (m) => {
      if (m.type() === "error" || m.type() === "warning") check(false, `console: ${m.text()}`);
    });
    page.on("pageerror", (e) => check(false, `error: ${e.message}`));
    page.on("request", (r) => {
      if (!r.url().startsWith(`file://`)) check(false, `the page asks for ${r.url()}`);
    });
    try {
      await page.goto(`file://${path}`);
      await page.waitForSelector("html[data-ready]", { state: "attached" });
      await checks[name](page);
    } catch (error) {
      check(false, `${name}: ${error.message}`);
    }
    await context.close();
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  const wanted = JSON.parse(line);
  failures = [];
  report = JSON.parse(readFileSync(wanted.report, "utf8"));
  await drive(wanted.page, wanted.checks);
  console.log(JSON.stringify(failures));
}
await browser.close();
