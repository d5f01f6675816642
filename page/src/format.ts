// SPDX-License-Identifier: MIT
//
// Numbers for people, in the forms of `sonde report`.

export function duration(ns: number): string {
  const steps: [number, string][] = [
    [1e9, "s"],
    [1e6, "ms"],
    [1e3, "µs"],
  ];
  for (const [size, unit] of steps) if (ns >= size) return `${digits(ns / size)} ${unit}`;
  return `${Math.round(ns)} ns`;
}

export function bytes(n: number): string {
  const sign = n < 0 ? "−" : "";
  const size = Math.abs(n);
  const units = ["B", "KB", "MB", "GB", "TB", "PB"];
  let i = 0;
  let value = size;
  while (value >= 1000 && i < units.length - 1) {
    value /= 1000;
    i++;
  }
  return `${sign}${i ? digits(value) : String(Math.round(value))} ${units[i]}`;
}

function digits(value: number): string {
  if (value >= 100) return value.toFixed(0);
  return value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

export function count(n: number): string {
  return Math.round(n).toLocaleString("en-US");
}

export function percent(part: number, whole: number): string {
  return whole > 0 ? `${((100 * part) / whole).toFixed(1)} %` : "";
}

/** Seconds with as many digits as a step of `stepNs` needs. */
export function seconds(ns: number, stepNs = 1e6): string {
  const digits = Math.min(9, Math.max(0, Math.ceil(-Math.log10(stepNs / 1e9))));
  return (ns / 1e9).toFixed(digits);
}

/** Seconds with all digits, to a nanosecond. */
export function exactSeconds(ns: number): string {
  return String(Number((ns / 1e9).toFixed(9)));
}

export function place(file: string, line: number, library: string): string {
  if (!file) return library;
  const name = file.slice(file.lastIndexOf("/") + 1);
  return line ? `${name}:${line}` : name;
}
