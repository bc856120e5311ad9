// What differs between two texts, word by word.

import { element, visible } from "/_ui/assets/dom.js";

// The table of the comparison has this many places at most; what is longer is compared at its ends alone.
const MOST = 250000;
const WORD = /\s+|[A-Za-z0-9_]+|./gsu;

/** The parts of two texts: each a kind ("same", "removed", "added") and a text. */
export function compared(before, after) {
  const old = before.match(WORD) ?? [];
  const now = after.match(WORD) ?? [];
  let start = 0;
  while (start < old.length && start < now.length && old[start] === now[start]) {
    start += 1;
  }
  let end = 0;
  while (end < old.length - start && end < now.length - start && old.at(-1 - end) === now.at(-1 - end)) {
    end += 1;
  }
  const middle = between(old.slice(start, old.length - end), now.slice(start, now.length - end));
  return joined([
    ...old.slice(0, start).map((word) => ["same", word]),
    ...middle,
    ...old.slice(old.length - end).map((word) => ["same", word]),
  ]);
}

function between(old, now) {
  if (old.length * now.length > MOST) {
    return [["removed", old.join("")], ["added", now.join("")]];
  }
  const table = lengths(old, now);
  const parts = [];
  let [at, to] = [0, 0];
  while (at < old.length && to < now.length) {
    if (old[at] === now[to]) {
      parts.push(["same", old[at]]);
      at += 1;
      to += 1;
    } else if (table[at + 1][to] >= table[at][to + 1]) {
      parts.push(["removed", old[at]]);
      at += 1;
    } else {
      parts.push(["added", now[to]]);
      to += 1;
    }
  }
  return [...parts, ...old.slice(at).map((word) => ["removed", word]), ...now.slice(to).map((word) => ["added", word])];
}

/** For each two places the length of the longest common rest. */
function lengths(old, now) {
  const table = Array.from({ length: old.length + 1 }, () => new Uint32Array(now.length + 1));
  for (let at = old.length - 1; at >= 0; at -= 1) {
    for (let to = now.length - 1; to >= 0; to -= 1) {
      const same = old[at] === now[to];
      table[at][to] = same ? table[at + 1][to + 1] + 1 : Math.max(table[at + 1][to], table[at][to + 1]);
    }
  }
  return table;
}

function joined(parts) {
  const found = [];
  for (const [kind, text] of parts) {
    if (found.length > 0 && found.at(-1)[0] === kind) {
      found.at(-1)[1] += text;
    } else {
      found.push([kind, text]);
    }
  }
  return found;
}

/** Two texts side by side under their titles, with what differs marked in each. */
export function sideBySide(before, after, titleBefore, titleAfter) {
  const parts = compared(before, after);
  return element("div", { class: "sides" }, side(titleBefore, parts, "removed", "del"), side(titleAfter, parts, "added", "ins"));
}

function side(title, parts, kind, mark) {
  const shown = parts
    .filter(([which]) => which === "same" || which === kind)
    .map(([which, text]) => (which === kind ? element(mark, {}, text) : visible(text)));
  return element("div", {}, element("p", { class: "soft" }, title), element("pre", { tabindex: 0, role: "region", "aria-label": title }, ...shown));
}
