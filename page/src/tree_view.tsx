// SPDX-License-Identifier: MIT
//
// Weights of stacks as a flame graph, an icicle, or reversed.
import { useMemo } from "preact/hooks";
import { Flame } from "./flame";
import { mergedTree, TreeNode, Weights } from "./model";
import { ViewProps } from "./names";

export type TreeForm = "flame" | "icicle" | "reversed";

export const FORMS = [
  ["flame", "Flame graph"],
  ["icicle", "Icicle"],
  ["reversed", "Callers"],
] as const;

interface Props extends ViewProps {
  weights: Weights;
  form: TreeForm;
  amount: (weight: number) => string;
  label: string;
  tree?: TreeNode; // instead of the weights
}

export function TreeView(props: Props) {
  const { data, weights, form, ownOnly } = props;
  const root = useMemo(
    () => props.tree ?? mergedTree(data, weights, { reversed: form === "reversed", ownOnly }),
    [data, weights, form === "reversed", ownOnly, props.tree],
  );
  return (
    <Flame
      data={data}
      root={root}
      up={form === "flame"}
      amount={props.amount}
      pattern={props.pattern}
      label={props.label}
    />
  );
}
