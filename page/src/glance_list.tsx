// SPDX-License-Identifier: MIT
//
// The main figures of the recording, above the time line. Each opens its view.
import { useMemo } from "preact/hooks";
import { Data } from "./data";
import { Figure, glance } from "./glance";

interface Props {
  data: Data;
  onShow: (key: Figure["key"]) => void;
}

export function GlanceList({ data, onShow }: Props) {
  const figures = useMemo(() => glance(data), [data]);
  if (!figures.length) return null;
  return (
    <ul class="glance" aria-label="The whole recording">
      {figures.map((f) => (
        <li key={f.key} data-key={f.key}>
          <button type="button" class="link" onClick={() => onShow(f.key)}>
            {f.title}
          </button>{" "}
          <b>{f.amount}</b>
          {f.most && (
            <span class="dim" title={f.name}>
              {" "}
              {f.most}
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}
