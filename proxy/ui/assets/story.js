// One request's whole story, in a dialog.

import { byId, clock, element, fill } from "/_ui/assets/dom.js";
import { sideBySide } from "/_ui/assets/diff.js";

/** A repair as a card; `open` opens the request that it is of, if it is not open already. */
export function repairCard(repair, about = []) {
  const tool = repair.tool ? `, tool ${repair.tool}` : "";
  const parts = [element("h3", {}, `${repair.fix}${tool}`), element("p", {}, repair.why), ...about];
  if (repair.before !== undefined) {
    parts.push(sideBySide(repair.before, repair.after));
  }
  return element("article", { class: "card" }, ...parts);
}

/** Why something was no call, in words. */
export function refusalLine(reason, count, reasons) {
  return `${reason}: ${reasons[reason] ?? "it was none"} (${count})`;
}

/** Show a request; what of it was kept is asked for. */
export async function openStory(number, reasons) {
  byId("story-title").textContent = `Request ${number}`;
  fill("story-body", [element("p", {}, "loading")]);
  if (!byId("story").open) {
    byId("story").showModal();
  }
  const answer = await fetch(`/_ui/requests/${number}`);
  const told = await answer.json();
  if (!answer.ok) {
    fill("story-body", [element("p", { class: "bad", role: "alert" }, told.error?.message ?? answer.statusText)]);
    return;
  }
  fill("story-body", storyParts(told, reasons));
}

function storyParts(told, reasons) {
  const repairs = told.repairs.filter((repair) => repair.side === "reply");
  const healed = told.repairs.filter((repair) => repair.side === "request");
  const refusals = Object.entries(told.refusals).map(([reason, count]) => element("li", {}, refusalLine(reason, count, reasons)));
  return [
    facts(told),
    ...actions(told),
    ...titled("Healed in the request", healed.map((repair) => repairCard(repair))),
    ...titled("Repaired in the reply", repairs.map((repair) => repairCard(repair))),
    ...titled("What was no call", refusals.length > 0 ? [element("ul", {}, ...refusals)] : []),
    ...titled("How the text of the answer is read", told.reading.length > 0 ? [block(told.reading.join("\n"), "Reading")] : []),
    ...told.steps.map((step) => element("details", {}, element("summary", {}, step.title), block(pretty(step.text), step.title))),
  ];
}

function titled(title, parts) {
  return parts.length > 0 ? [element("h3", {}, title), ...parts] : [];
}

function facts(told) {
  const listed = {
    id: told.id,
    time: clock(told.at),
    model: told.model,
    client: told.client || "none in particular",
    key: told.key,
    path: told.path,
    "model server": told.server,
    status: told.status,
    error: told.error,
    seconds: told.seconds,
    "first byte after": told.first_byte,
    "tokens/s, about": told.stream ? told.tokens_per_second : "",
    bytes: told.bytes,
    calls: told.calls,
    tries: told.tries,
    "calls are found by": told.parse,
  };
  const shown = Object.entries(listed).filter(([, value]) => value !== "" && value !== null);
  return element("dl", {}, ...shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function actions(told) {
  if (!told.values) {
    return [element("p", { class: "soft" }, "What was said is not kept; start the proxy with --audit-values to see it.")];
  }
  if (!told.steps.some((step) => step.title.startsWith("What the model server answered"))) {
    return [];
  }
  const save = element("a", { class: "button", href: `/_ui/requests/${told.number}/capture`, download: "" }, "Save as a capture");
  return [element("p", { class: "actions" }, save)];
}

function block(text, name) {
  return element("pre", { tabindex: 0, role: "region", "aria-label": name }, text);
}

/** JSON with its lines; all else as it came. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
