// SPDX-License-Identifier: MIT
//
// Opens the addresses that `sonde view --with` printed in headless Chromium, as a browser does that reaches the
// network: each page comes from its own origin, and loads the recording from the server on loopback.
// The page of speedscope is the released one, from its npm package. The page of profiler.firefox.com is empty here,
// and only loads the file.
// usage: node viewers.mjs CHROMIUM URL…     prints an object for each: its errors, and what the page shows
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, ...addresses] = process.argv.slice(2);
const release = join(
  dirname(createRequire(import.meta.url).resolve("speedscope/package.json")),
  "dist",
  "release",
);

async function serveRelease(route) {
  const name = new URL(route.request().url()).pathname.slice(1) || "index.html";
  const path = join(release, name);
  await (existsSync(path) ? route.fulfill({ path }) : route.fulfill({ status: 404 }));
}

const viewers = {
  "profiler.firefox.com": {
    serve: (route) => route.fulfill({ contentType: "text/html", body: "<title>empty</title>" }),
    async shown(page, address) {
      const url = decodeURIComponent(new URL(address).pathname.replace("/from-url/", ""));
      return page.evaluate(async (from) => {
        const profile = await (await fetch(from)).json();
        const weights = profile.threads.map((t) => t.samples.weight.reduce((a, b) => a + b, 0));
        return { samples: weights.reduce((a, b) => a + b, 0) };
      }, url);
    },
  },
  "www.speedscope.app": {
    serve: serveRelease,
    async shown(page) {
      await page.waitForFunction(() => document.querySelectorAll("canvas").length > 0);
      await page.keyboard.press("3"); /* its table of functions, "Sandwich" */
      await page.waitForSelector("tr td:visible"); /* the list of profiles is hidden */
      const rows = await page.$$eval("tr:visible", (all) =>
        all.map((row) => [...row.cells].map((cell) => cell.textContent)),
      );
      return { title: await page.title(), rows };
    },
  },
};

/** What a user allows when the browser asks: newer ones do before a page of the network reaches this machine. */
async function allowLoopback(page, origin) {
  const session = await page.context().newCDPSession(page);
  for (const name of ["local-network-access", "loopback-network"])
    await session
      .send("Browser.setPermission", { permission: { name }, setting: "granted", origin })
      .catch(() => {}); /* an older browser does not ask */
}

const browser = await chromium.launchPersistentContext("", {
  executablePath,
  args: ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"],
});
for (const address of addresses) {
  const errors = [];
  const viewer = viewers[new URL(address).hostname];
  const page = await browser.newPage();
  page.on("console", (m) => m.type() === "error" && errors.push(m.text()));
  page.on("pageerror", (e) => errors.push(e.message));
  await page.route(`${new URL(address).origin}/**`, viewer.serve);
  await allowLoopback(page, new URL(address).origin);
  let shown = {};
  try {
    await page.goto(address);
    shown = await viewer.shown(page, address);
  } catch (error) {
    errors.push(error.message);
  }
  console.log(JSON.stringify({ errors, ...shown }));
  await page.close();
}
await browser.close();
