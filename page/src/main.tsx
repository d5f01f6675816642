// SPDX-License-Identifier: MIT
//
// Reads the data and replaces the text of the page. If that fails, the text stays.
import { render } from "preact";
import { App } from "./app";
import { readData, unpack } from "./data";
import { Answer } from "./view_answer";

async function start() {
  const app = document.getElementById("app")!;
  const packed = document.getElementById("data")!.textContent!.trim();
  const packedOld = document.getElementById("old")!.textContent!.trim();
  const facts = document.querySelector("#text .facts")?.textContent ?? "";
  const licences = document.querySelector<HTMLTemplateElement>("#licences")!.content.textContent!;
  const packedAnswer = document.getElementById("answer")!.textContent!.trim();
  if (packedAnswer) {
    const answer = await unpack(packedAnswer);
    app.textContent = "";
    render(<Answer data={answer} />, app);
    document.documentElement.dataset.ready = "yes";
    return;
  }
  if (!packed) return;
  const data = await readData(packed);
  const old = packedOld ? await readData(packedOld) : undefined;
  app.textContent = "";
  render(<App data={data} old={old} facts={facts} licences={licences.trim()} />, app);
  document.documentElement.dataset.ready = "yes";
}

start().catch((error: unknown) => {
  const note = document.createElement("p");
  note.className = "error";
  note.setAttribute("role", "alert");
  note.textContent = `The interactive part of this page cannot start: ${String(error)}`;
  document.body.prepend(note);
});
