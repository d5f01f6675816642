// SPDX-License-Identifier: MIT
//
// The crash: its cause, what the pointers point to, and the stack of every thread.
import { Section } from "./data";
import { seconds } from "./format";
import { Frames, ViewProps } from "./names";

export function CrashView({ data }: ViewProps) {
  const crash: Section = data.report.crash;
  const told: Section[] = (crash.pointers ?? []).filter((p: Section) => p.text);
  const telling = told.filter((p) => p.telling);
  return (
    <>
      <p class="sum">
        At {seconds(crash.time_ns)} s: {crash.cause}
      </p>
      <Pointers pointers={telling} />
      {told.length > telling.length && (
        <details>
          <summary>What the other registers contain</summary>
          <Pointers pointers={told.filter((p) => !p.telling)} />
        </details>
      )}
      {(crash.threads ?? []).map((t: Section, i: number) => (
        <section key={i}>
          <h3>
            {t.name || "thread"} {t.tid}
            {i === 0 ? ", which crashed" : ""}
          </h3>
          <Frames data={data} frames={t.frames} />
        </section>
      ))}
    </>
  );
}

function Pointers({ pointers }: { pointers: Section[] }) {
  if (!pointers.length) return null;
  return (
    <ul class="facts">
      {pointers.map((p, i) => (
        <li key={i} class={p.telling ? "telling" : ""}>
          {p.text}
        </li>
      ))}
    </ul>
  );
}
