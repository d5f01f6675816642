// SPDX-License-Identifier: MIT
//
// The head of the page: what `sonde why` says, and the facts of the recording with what is missing.
import { Section } from "./data";

export function Head({ report, facts }: { report: Section; facts: string }) {
  const findings: Section[] = report.why?.findings ?? [];
  const program: string = report.arguments?.[0] || (report.exe ?? "");
  const missing = /^ {2}(missing|damaged) /m.test(facts);
  return (
    <header>
      <h1>
        {program.slice(program.lastIndexOf("/") + 1) || facts.trim().split("\n")[0]}{" "}
        <span class="brand">sonde</span>
      </h1>
      {findings.length > 0 ? (
        <ol class="why" aria-label="What sonde why says">
          {findings.map((f, i) => (
            <li key={i} class={f.fault ? "fault" : "note"}>
              <p>{f.sentence}</p>
              {f.evidence?.figure && <p class="evidence">{f.evidence.figure}</p>}
            </li>
          ))}
        </ol>
      ) : (
        <p>Nothing is wrong, as far as the recorded sensors tell.</p>
      )}
      <details open={missing}>
        <summary>{missing ? "This recording is incomplete" : "About this recording"}</summary>
        <pre class="facts" tabIndex={0}>
          {facts}
        </pre>
        {report.why?.not_recorded?.length > 0 && (
          <p class="dim">Not recorded: {report.why.not_recorded.join(", ")}.</p>
        )}
      </details>
    </header>
  );
}
