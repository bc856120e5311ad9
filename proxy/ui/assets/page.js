// The page: it is told by the proxy what is new, and shows it.

import { chartCard } from "/_ui/assets/chart.js";
import { byId, clock, element, fill, row, visible } from "/_ui/assets/dom.js";
import { openStory, refusalLine, repairCard } from "/_ui/assets/story.js";

const MOST_REQUESTS = 200;
const MOST_REPAIRS = 20;
const MOST_REFUSALS = 40;
const MOST_CHARTS = 24;

// The newest first; `reasons` are the words for why something is no call.
let ring = "";
let requests = [];
let reasons = {};

function take(news) {
  // The proxy has started anew, and its numbers with it.
  const isAnother = news.ring !== ring;
  if (isAnother) {
    ring = news.ring;
    requests = [];
  }
  if (news.status) {
    showStatus(news.status);
  }
  showLive(news.live);
  if (news.requests || isAnother) {
    const known = new Set(requests.map((one) => one.number));
    const more = (news.requests ?? []).filter((one) => !known.has(one.number)).reverse();
    requests = [...more, ...requests].slice(0, MOST_REQUESTS);
    showRequests();
    showRepairs("repair-list", "repairs-empty", "reply");
    showRepairs("healing-list", "healings-empty", "request");
    showRefusals();
  }
  if (news.counts) {
    showCharts(news.counts);
  }
}

function showLive(live) {
  const rows = live.map((one) =>
    row(one.client || "none in particular", one.model, one.phase, one.seconds.toFixed(1), one.stream ? one.tokens_per_second.toFixed(1) : "", one.id),
  );
  fill("live-rows", rows, "live-empty");
}

function opener(one, text) {
  const button = element("button", { type: "button", "data-number": one.number }, text);
  button.addEventListener("click", () => openStory(one.number, reasons));
  return button;
}

// A list that is drawn anew keeps the focus where it was.
function redrawn(id, draw) {
  const focused = byId(id).contains(document.activeElement) ? document.activeElement.dataset.number : undefined;
  draw();
  if (focused !== undefined) {
    byId(id).querySelector(`[data-number="${CSS.escape(focused)}"]`)?.focus();
  }
}

function showRequests() {
  const rows = requests.map((one) => {
    const status = element("span", { class: one.error || one.status >= 400 ? "bad" : "good" }, one.error ? `${one.status}: ${one.error}` : one.status);
    const refused = Object.values(one.refusals).reduce((all, count) => all + count, 0);
    return row(
      clock(one.at),
      opener(one, one.id),
      one.client || "none in particular",
      one.model,
      status,
      one.seconds.toFixed(2),
      one.stream ? one.tokens_per_second.toFixed(1) : "",
      one.calls,
      one.repairs.length + one.more_repairs,
      refused,
    );
  });
  redrawn("request-rows", () => fill("request-rows", rows, "requests-empty"));
}

function showRepairs(list, empty, side) {
  const found = requests.flatMap((one) => one.repairs.filter((repair) => repair.side === side).map((repair) => [one, repair]));
  const cards = found.slice(0, MOST_REPAIRS).map(([one, repair]) => {
    const about = element("p", { class: "soft" }, `${clock(one.at)}, done for ${one.model}, `, opener(one, `request ${one.number}`));
    return repairCard(repair, [about]);
  });
  redrawn(list, () => fill(list, cards, empty));
}

function showRefusals() {
  const found = requests.flatMap((one) => Object.entries(one.refusals).map(([reason, count]) => [one, reason, count]));
  const lines = found
    .slice(0, MOST_REFUSALS)
    .map(([one, reason, count]) =>
      element("li", {}, `${clock(one.at)}, ${one.model}, ${refusalLine(reason, count, reasons)} `, opener(one, `request ${one.number}`)),
    );
  redrawn("refusal-list", () => fill("refusal-list", lines, "refusals-empty"));
}

function showCharts(counts) {
  const series = Object.entries(counts).flatMap(([group, names]) => Object.entries(names).map(([name, numbers]) => [group, name, numbers]));
  const sum = (numbers) => numbers.reduce((all, one) => all + one, 0);
  series.sort((one, other) => sum(other[2]) - sum(one[2]));
  fill("chart-list", series.slice(0, MOST_CHARTS).map((one) => chartCard(...one)), "charts-empty");
}

function showStatus(status) {
  reasons = status.reasons;
  byId("version").textContent = status.version;
  byId("sign-out").hidden = !status.signed_in;
  byId("notes").textContent = notes(status).join(" ");
  const servers = status.servers.map((server) =>
    element("li", {}, `${server.url}: `, element("span", { class: server.ready ? "good" : "bad" }, server.ready ? "answers" : "does not answer")),
  );
  fill("server-list", servers);
  showRules(status.rules);
}

function notes(status) {
  const said = [];
  if (!status.values) {
    said.push("What clients and models said is not kept here; --audit-values does that.");
  }
  if (status.lost > 0) {
    said.push(`${status.lost} requests are not shown, for too many came at once or their file could not be written.`);
  }
  return said;
}

function showRules(rules) {
  byId("rules-source").textContent = `${visible(rules.source)}, sha256 ${rules.sha256.slice(0, 12)}`;
  byId("rules-error").hidden = !rules.error;
  byId("rules-error").textContent = rules.error ? `A newer file is not in force: ${visible(rules.error)}` : "";
  fill("rule-rows", rules.entries.map((entry) => element("tr", {}, element("td", {}, entry.text), element("td", { class: "place" }, entry.place))));
}

function say(word, kind) {
  byId("connection").textContent = word;
  byId("connection").className = kind;
}

function listen() {
  const source = new EventSource("/_ui/events");
  source.addEventListener("open", () => say("connected", "good"));
  source.addEventListener("message", (event) => take(JSON.parse(event.data)));
  source.addEventListener("error", () => {
    if (source.readyState === EventSource.CLOSED) {
      say("not connected: sign in, or load the page anew", "bad");
      setTimeout(listen, 5000);
    } else {
      say("connecting again", "bad");
    }
  });
}

byId("story-close").addEventListener("click", () => byId("story").close());
listen();
