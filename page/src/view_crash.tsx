// SPDX-License-Identifier: MIT
//
// The crash: its cause, what the pointers point to, and the stack of every thread.
import { Section } from "./data";
import { seconds } from "./format";
import { Frames, ViewProps } from "./names";

export function CrashView({ data }: ViewProps) {
  const crash: Section = data.report.crash;
  const told: Section[] = (crash.pointers ?? []).filter((p: Section) => p.text);
  return (
    <>
      <p class="sum">
        At {seconds(crash.time_ns)} s: {crash.cause}
      </p>
      {told.length > 0 && (
        <ul class="facts">
          {told.map((p, i) => (
            <li key={i} class={p.telling ? "telling" : ""}>
              {p.text}
            </li>
          ))}
        </ul>
      )}
      {(crash.threads ?? []).map((t: Section, i: number) => (
        <section key={i}>
          <h3>
            {t.name || "thread"} {t.tid}
            {i === 0 ? ", which crashed" : ""}
          </h3>
          <Frames frames={t.frames} />
        </section>
      ))}
    </>
  );
}
