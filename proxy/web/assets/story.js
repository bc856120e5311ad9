// One request's whole story, in a dialog.

import { byId, clock, element, fill, tokens } from "/_ui/assets/dom.js";
import { sideBySide } from "/_ui/assets/diff.js";

/** Show a request; what was kept of it is asked for. */
export async function openStory(number, reasons) {
  byId("story-title").textContent = "Request";
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
  const of = (side, isText) => told.repairs.filter((one) => one.side === side && (one.fix === "text_call") === isText);
  const refusals = Object.entries(told.refused ?? {}).map(([reason, count]) => element("li", {}, `${reason}: ${reasons[reason] ?? "not a call"} (${count})`));
  return [
    element("p", {}, element("strong", { class: told.result }, told.result), told.error ? ` ${told.error}` : ""),
    ...titled("What the model wrote, and the call that was sent", of("reply", true).map((one) => repairCard(one, "The model wrote", "The client got"))),
    ...titled("Repaired in the reply", of("reply", false).map((one) => repairCard(one))),
    ...titled("Rejected: looked like a call", refusals.length > 0 ? [element("ul", {}, ...refusals)] : []),
    ...titled("Healed in the request", of("request", false).map((one) => repairCard(one))),
    ...titled("The request", [facts(told)]),
    ...(told.values ? [] : [element("p", { class: "soft" }, "What was written is not kept; start the proxy with --audit-values to see it.")]),
    ...told.steps.map((step) => element("details", {}, element("summary", {}, step.title), block(pretty(step.text), step.title))),
  ];
}

function repairCard(repair, before = "Before", after = "After") {
  const parts = [element("h4", {}, repair.tool ? `${repair.fix}, tool ${repair.tool}` : repair.fix), element("p", {}, repair.why)];
  if (repair.before !== undefined) {
    parts.push(sideBySide(repair.before, repair.after, before, after));
  }
  return element("article", { class: "card" }, ...parts);
}

function titled(title, parts) {
  return parts.length > 0 ? [element("h3", {}, title), ...parts] : [];
}

function facts(told) {
  const listed = {
    id: told.id,
    time: clock(told.at),
    model: told.model,
    client: told.client,
    key: told.key,
    path: told.route,
    status: told.status,
    seconds: (told.ms / 1000).toFixed(2),
    "tokens in + out": tokens(told.tokens.prompt, told.tokens.completion),
    calls: told.calls,
    tries: told.tries,
    "calls are found by": told.parse,
  };
  const shown = Object.entries(listed).filter(([, value]) => (value ?? "") !== "");
  return element("dl", {}, ...shown.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
}

function block(text, name) {
  return element("pre", { tabindex: 0, role: "region", "aria-label": name }, text);
}

/** JSON with its lines; all else unchanged. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
