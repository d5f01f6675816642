// SPDX-License-Identifier: MIT
//
// Makes the page: one HTML file with the scripts, the styles and the licences of the libraries in it.
// Its content security policy allows nothing but these scripts and styles, by their hashes.
// usage: node build.mjs OUT
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const MOST_BYTES = 400000;
const MARKS = ["title", "text", "answer", "data", "old"].map((name) => `<!--sonde:${name}-->`);

async function bundle(entry) {
  const result = await build({
    entryPoints: [join(here, "src", entry)],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    charset: "utf8",
    target: ["chrome109", "firefox115", "safari16.4"],
    legalComments: "none",
    jsx: "automatic",
    jsxImportSource: "preact",
    metafile: true,
    logLevel: "warning",
  });
  return { text: result.outputFiles[0].text.trim(), inputs: Object.keys(result.metafile.inputs) };
}

/** The licences of the packages that files of the bundle come from. */
function licences(inputs) {
  const names = new Set();
  for (const input of inputs) {
    const match = /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input);
    if (match) names.add(match[1]);
  }
  return [...names].sort().map((name) => {
    const folder = join(here, "node_modules", name);
    const { version } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    return `${name} ${version}\n\n${readFileSync(join(folder, "LICENSE"), "utf8").trim()}\n`;
  });
}

function hash(text) {
  return `'sha256-${createHash("sha256").update(text, "utf8").digest("base64")}'`;
}

function escapeHtml(text) {
  return text.replace(/[&<>]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[c]);
}

/** Replaces MARK in TEXT, which must contain it once. */
function put(text, mark, value) {
  const parts = text.split(mark);
  if (parts.length !== 2) throw new Error(`the page needs one ${mark}`);
  return parts.join(value);
}

const script = await bundle("main.tsx");
const style = await bundle("style.css");
const policy =
  `default-src 'none'; script-src ${hash(script.text)}; style-src ${hash(style.text)}; ` +
  "base-uri 'none'; form-action 'none'";
let page = readFileSync(join(here, "src", "page.html"), "utf8");
page = put(page, "{{policy}}", policy);
page = put(page, "{{style}}", style.text);
page = put(page, "{{licences}}", escapeHtml(licences(script.inputs).join("\n")));
page = put(page, "{{script}}", script.text);
for (const mark of MARKS) put(page, mark, "");
if (/<\/(script|style)/i.test(script.text + style.text)) throw new Error("a script ends itself");
if (page.length > MOST_BYTES) throw new Error(`the page has ${page.length} bytes`);
mkdirSync(dirname(process.argv[2]), { recursive: true });
writeFileSync(process.argv[2], page);
