// Small charts: a bar for each minute of the last hour.

import { drawn, element } from "/_ui/assets/dom.js";

const HEIGHT = 30;

/** A card with a name, its sum, and its bars. */
export function chartCard(group, name, numbers) {
  const sum = numbers.reduce((all, one) => all + one, 0);
  const said = `${group}: ${name}`;
  return element(
    "div",
    { class: "card" },
    element("h3", {}, name),
    element("p", { class: "soft" }, `${group}, ${sum} in the last hour`),
    chart(said, sum, numbers),
  );
}

function chart(said, sum, numbers) {
  const most = Math.max(1, ...numbers);
  const bars = numbers.flatMap((number, at) => {
    if (number === 0) {
      return [];
    }
    const height = Math.max(1.5, (number / most) * HEIGHT);
    return [drawn("rect", { x: at + 0.1, y: HEIGHT - height, width: 0.8, height })];
  });
  return drawn(
    "svg",
    {
      class: "chart",
      viewBox: `0 0 ${numbers.length} ${HEIGHT}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${said}, ${sum} in the last hour, at most ${most} in a minute`,
    },
    ...bars,
    drawn("line", { x1: 0, y1: HEIGHT, x2: numbers.length, y2: HEIGHT, "stroke-width": 0.5 }),
  );
}
