// SPDX-License-Identifier: MIT
//
// Selects ranges in a page, and compares its figures with those of the report for the same ranges. The report of a
// range is `sonde report --json --from --to --top`; tests/real/shared/selections.py makes the list.

/** TOOLS: the functions of browser.mjs that find and compare what a page shows. */
export async function compareSelections(page, selections, tools) {
  for (const selection of selections) {
    const { asked, snapped, report } = selection;
    const where = `from ${snapped[0]} to ${snapped[1]}`;
    await page
      .click('button:text-is("Select all")', { force: true, timeout: 1000 })
      .catch(() => {});
    await tools.select(page, "to", asked[1]);
    await tools.select(page, "from", asked[0]);
    const shown = [];
    for (const end of ["from", "to"])
      shown.push(Number(await tools.fieldOf(page, end).inputValue()));
    tools.equal(shown, snapped, `the snapped range ${where}`);
    const has = async (name) => (await page.locator(`#tab-${name}`).count()) > 0;
    if (await has("cpu")) await cpu(page, report, where, tools);
    if (await has("memory")) await memory(page, report, where, tools);
    if (await has("waits")) await waits(page, selection, where, tools);
    if (await has("stalls")) await stalls(page, report, where, tools);
    if (await has("calls")) await calls(page, report, where, tools);
    if (await has("audit")) await audit(page, report, where, tools);
  }
}

async function cpu(page, report, where, tools) {
  await tools.tab(page, "cpu");
  const shown = tools.number(await page.textContent("#cpu-samples"));
  tools.equal(shown, report.sample?.samples ?? 0, `samples ${where}`);
  const totals = tools.namedFigures(await tools.rows(page), 5);
  for (const f of report.sample?.functions ?? [])
    tools.check(
      totals.get(f.function)?.includes(f.total),
      `samples of ${f.function} ${where}: ${totals.get(f.function)}, expected ${f.total}`,
    );
}

async function memory(page, report, where, tools) {
  const { malloc } = report;
  if (!malloc?.allocated) return;
  await tools.tab(page, "memory");
  await tools.press(page, "Blocks", "Allocated");
  const bytes = Number(await page.getAttribute("#memory-bytes", "data-bytes"));
  tools.equal(bytes, malloc.allocated.bytes, `bytes allocated ${where}`);
  const text = await page.textContent("#panel .sum");
  const blocks = tools.number(/in ([\d,]+) blocks/.exec(text)[1]);
  tools.equal(blocks, malloc.allocated.blocks, `blocks allocated ${where}`);
  const shown = tools.namedFigures(await tools.rows(page), 3);
  const used = malloc.functions.filter((row) => row.allocated.blocks);
  for (const [name, expected] of tools.sumsByName(used, (f) => f.allocated.blocks))
    tools.equal(
      shown.get(name)?.reduce((sum, n) => sum + n, 0),
      expected,
      `blocks that ${name} allocated ${where}`,
    );
}

/** The times of waits are known in steps, so the ends of a range are inexact. */
async function waits(page, selection, where, tools) {
  await tools.tab(page, "waits");
  const shown = Number(await page.getAttribute("#wait-time", "data-ns"));
  const { blocked_ns, blocked_error_ns } = selection;
  tools.check(
    Math.abs(shown - blocked_ns) <= blocked_error_ns,
    `blocked time ${where}: ${shown}, expected ${blocked_ns} ± ${blocked_error_ns}`,
  );
}

/** The page shows stalls that lasted into the range, the report those that ended in it. */
async function stalls(page, report, where, tools) {
  await tools.tab(page, "stalls");
  const shown = tools.number(await page.textContent("#stall-count"));
  const least = report.stalls?.stalls?.length ?? 0;
  tools.check(shown >= least, `stalls ${where}: ${shown}, expected at least ${least}`);
}

async function calls(page, report, where, tools) {
  await tools.tab(page, "calls");
  const shown = tools.number(await page.textContent("#call-count"));
  tools.equal(shown, report.trace?.calls ?? 0, `calls ${where}`);
}

/** The page knows the first and the last call of a finding alone: it keeps each finding that the report has. */
async function audit(page, report, where, tools) {
  await tools.tab(page, "audit");
  const shown = tools.number(await page.textContent("#audit-count"));
  const least = report.audit?.findings?.length ?? 0;
  tools.check(shown >= least, `findings ${where}: ${shown}, expected at least ${least}`);
}
