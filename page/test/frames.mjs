// SPDX-License-Identifier: MIT
//
// Measures a page in headless Chromium with software rendering: the time to open it and the CPU time of its main thread
// meanwhile, and the time of each frame while the graph of CPU time is zoomed into and out of. For bench/view.py.
// Frames do not wait for the refresh of a display: with it, no frame takes less than 16.7 ms.
// usage: node frames.mjs CHROMIUM PAGE     prints an object
import { chromium } from "playwright-core";

const [executablePath, path] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath,
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-gpu-vsync",
    "--disable-frame-rate-limit",
  ],
});
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
const began = performance.now();
await page.goto(`file://${path}`);
await page.waitForSelector("html[data-ready]", { state: "attached" });
const open_ms = performance.now() - began;
const { metrics } = await session.send("Performance.getMetrics");
const open_cpu_ms = 1000 * metrics.find((m) => m.name === "TaskDuration").value;
await page.click("#tab-cpu");
await page.click('#panel [aria-label="Form"] button:text-is("Icicle")');
await page.locator(".box").first().waitFor();

// A frame lasts from the click to the first task after the next animation callback: the browser lays out and paints
// between these two.
const frames = await page.evaluate(async () => {
  const found = [];
  for (let i = 0; i < 200; i++) {
    const boxes = document.querySelectorAll("#panel .box");
    const box = boxes[(i * 7919) % boxes.length];
    const start = performance.now();
    box.click();
    await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    found.push(performance.now() - start);
    const whole = [...document.querySelectorAll("button")].find(
      (b) => b.textContent === "Whole graph",
    );
    if (i % 5 === 4) whole?.click();
    await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  }
  return found.sort((a, b) => a - b);
});
const at = (share) => frames[Math.min(frames.length - 1, Math.floor(frames.length * share))];
console.log(
  JSON.stringify({
    open_ms,
    open_cpu_ms,
    frames: frames.length,
    median_ms: at(0.5),
    p99_ms: at(0.99),
  }),
);
await browser.close();
