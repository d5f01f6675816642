// SPDX-License-Identifier: MIT
//
// What happened at a moment of the time line: what each thread did, with its stack, and what is marked there.
import { Data, Thread } from "./data";
import { duration, seconds } from "./format";
import { stateAt } from "./lanes";
import { Mark } from "./marks";
import { Stack } from "./names";

interface Props {
  data: Data;
  ns: number;
  memory: string[];
  marks: Mark[];
  threads: Thread[];
  around: number; // the length of the range that the button selects
  onRange: (from: number, to: number) => void;
  onThread: (tid: number) => void;
  onClose: () => void;
}

export function Moment(props: Props) {
  const { data, ns, around } = props;
  const title = [`At ${seconds(ns, around / 20)} s`, ...props.memory].join(" · ");
  return (
    <section class="moment" aria-labelledby="moment-title">
      <div class="bar">
        <h3 id="moment-title">{title}</h3>
        <button
          type="button"
          onClick={() => props.onRange(Math.max(0, ns - around / 2), ns + around / 2)}
        >
          Select {duration(around)} around it
        </button>
        <button type="button" onClick={props.onClose}>
          Close
        </button>
      </div>
      <ul>
        {props.marks.map((m, i) => (
          <li key={i}>{m.text}</li>
        ))}
        {props.threads.map((t) => (
          <li key={t.tid}>
            <ThreadState data={data} tid={t.tid} ns={ns} onThread={props.onThread} />
          </li>
        ))}
      </ul>
    </section>
  );
}

type StateProps = Pick<Props, "data" | "ns" | "onThread"> & { tid: number };

function ThreadState({ data, tid, ns, onThread }: StateProps) {
  const { text, stack } = stateAt(data, tid, ns);
  const name = (
    <button type="button" class="link" onClick={() => onThread(tid)}>
      {data.threadName(tid)}
    </button>
  );
  if (!stack)
    return (
      <>
        {name} {text}
      </>
    );
  return (
    <>
      {name}{" "}
      <details>
        <summary>{text}</summary>
        <Stack data={data} stack={stack} />
      </details>
    </>
  );
}
