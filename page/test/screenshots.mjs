// SPDX-License-Identifier: MIT
//
// Makes the pictures of docs/view.md.
// usage: node screenshots.mjs CHROMIUM PAGE FOLDER
import { join } from "node:path";
import { chromium } from "playwright-core";

const [executablePath, path, folder] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });

async function picture(name, colorScheme, actions) {
  const page = await browser.newPage({ viewport: { width: 1120, height: 800 }, colorScheme });
  await page.goto(`file://${path}`);
  await page.waitForSelector("html[data-ready]", { state: "attached" });
  for (const action of actions) await page.click(action);
  await page.mouse.move(0, 0);
  await page.waitForTimeout(300);
  await page.screenshot({ path: join(folder, name) });
  await page.close();
}

await picture("view.png", "light", []);
await picture("view-memory.png", "dark", ["#tab-memory", 'button:text-is("Icicle")']);
await picture("view-waits.png", "light", ["#tab-waits", "#panel .open >> nth=0"]);
await browser.close();
