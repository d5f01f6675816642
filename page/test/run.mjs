// SPDX-License-Identifier: MIT
//
// Checks the sources of the page: types, form, and the unit tests (*_test.ts).
// usage: node run.mjs [--sources]    without the unit tests; exit 77: node_modules is missing
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const page = dirname(here);
const tool = (name) => join(page, "node_modules", ".bin", name);

function run(command, ...args) {
  const { status } = spawnSync(command, args, { cwd: page, stdio: "inherit" });
  if (status !== 0) process.exit(1);
}

if (!existsSync(tool("prettier"))) {
  console.log("skipped: the npm packages of page/ are missing; './run setup' fetches them");
  process.exit(77);
}
run(tool("tsc"), "--noEmit");
run(tool("prettier"), "--log-level", "warn", "--check", ".");
if (!process.argv.includes("--sources")) {
  const { build } = await import("esbuild");
  const out = mkdtempSync(join(tmpdir(), "sonde-page-"));
  try {
    await build({
      entryPoints: readdirSync(here)
        .filter((name) => name.endsWith("_test.ts"))
        .map((name) => join(here, name)),
      bundle: true,
      platform: "node",
      format: "esm",
      outdir: out,
      outExtension: { ".js": ".mjs" },
      logLevel: "warning",
    });
    run(process.execPath, "--test", out);
  } finally {
    rmSync(out, { recursive: true });
  }
}
