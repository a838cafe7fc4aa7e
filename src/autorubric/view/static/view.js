// Keys, prefetch and live figures. Pages work without it.
const KEEP = "autorubric-single-keys";
const $ = (selector) => document.querySelector(selector);
const helpBox = $("#help");
const toggle = $("#single-keys");

function singleKeys() {
  try { return localStorage.getItem(KEEP) !== "off"; } catch { return true; }
}

function help() {
  if (helpBox && !helpBox.open) helpBox.showModal();
}

if (toggle) {
  toggle.checked = singleKeys();
  toggle.addEventListener("change", () => {
    try { localStorage.setItem(KEEP, toggle.checked ? "on" : "off"); } catch { /* for this page only */ }
  });
}
const opener = $("#keys");
if (opener) {
  opener.hidden = false;
  opener.addEventListener("click", help);
}

// A key is a command where nobody types, without Ctrl, Alt and Meta.
export function isCommand(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.repeat && event.key.length === 1 && !"jk".includes(event.key)) return false;
  if (helpBox?.open || (toggle ? !toggle.checked : !singleKeys())) return false;
  return !event.target.closest?.("input, select, textarea, [contenteditable]");
}

const rows = [...document.querySelectorAll("[data-row]")];
let at = -1;

function move(by) {
  at = Math.max(0, Math.min(rows.length - 1, at + by));
  rows.forEach((row, place) => row.closest("tr").classList.toggle("at", place === at));
  rows[at].focus();
  rows[at].scrollIntoView({ block: "nearest" });
}

const commands = new Map();
export function onKey(key, run) { commands.set(key, run); }

onKey("?", help);
onKey("/", () => $("#q")?.focus());
if (rows.length) {
  onKey("j", () => move(1));
  onKey("k", () => move(-1));
}
for (const link of document.querySelectorAll("[data-key]")) onKey(link.dataset.key, () => link.click());

document.addEventListener("keydown", (event) => {
  const run = commands.get(event.key);
  if (!run || !isCommand(event)) return;
  event.preventDefault();
  run(event);
});

// The next item is fetched ahead.
const next = document.querySelector('a[rel="next"][data-key]');
if (next && !navigator.connection?.saveData) setTimeout(() => fetch(next.href, { priority: "low" }).catch(() => {}), 300);

const live = $("#live");
if (live) setInterval(async () => {
  let told = "The server does not respond; the figures are from its last response.";
  try {
    const page = new DOMParser().parseFromString(await (await fetch(location)).text(), "text/html");
    const now = page.querySelector("#live");
    if (now && now.innerHTML !== live.innerHTML) live.replaceChildren(...now.childNodes);
    told = page.querySelector(".problem")?.textContent ?? "";
  } catch { /* told below */ }
  $("#live-problem").textContent = told;
}, 1000);

async function post(url, body) {
  let answer;
  try {
    answer = await fetch(url, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });
  } catch {
    throw new Error("the server does not answer");
  }
  const value = await answer.json().catch(() => ({}));
  if (!answer.ok) throw Object.assign(new Error(value.problem ?? `the server answered ${answer.status}`), { refused: answer.status < 500 });
  return value;
}

function problem(words) {
  const place = $("#label-problem");
  place.textContent = words;
  place.hidden = !words;
}

const opening = $("#open-labels");
opening?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const given = Object.fromEntries(new FormData(opening));
  try {
    const numbers = ["size", "seed", "second_percent"].map((name) => [name, Number(given[name])]);
    await post(opening.dataset.action, { ...given, ...Object.fromEntries(numbers) });
    location.search = new URLSearchParams({ annotator: given.annotator });
  } catch (error) { problem(error.message); }
});
$("#close-labels")?.addEventListener("click", async (event) => {
  try { await post(event.currentTarget.dataset.action, {}); location.reload(); } catch (error) { problem(error.message); }
});

// Letters that are commands are not letters of options.
const LETTERS = [..."abcdefgijkmoprtvwxyz"];
const panel = $("#labels");

class Session {
  constructor() {
    this.seen = [];
    this.at = -1;
    this.busy = false;
    this.quote = "";
    this.note = $("#note");
  }

  part(name) { return panel.querySelector(`[data-part="${name}"]`); }

  get task() { return this.seen[this.at]; }

  // One request at a time: a key that is pressed meanwhile must not label a pair that nobody has seen.
  async send(action, more = {}) {
    if (this.busy) return;
    this.busy = true;
    try {
      const found = await post(`${panel.dataset.root}/${action}`, { annotator: panel.dataset.annotator, ...more });
      problem("");
      this.told(found);
      return found;
    } catch (error) {
      problem(action === "next" ? error.message : `Not saved: ${error.message}.${error.refused ? "" : " Press the key again."}`);
    } finally { this.busy = false; }
  }

  told(found) {
    const p = found.progress;
    if (p) $("#label-progress").textContent = `${p.labelled} labelled, ${p.skipped} skipped, ${p.open} open` + (p.differing ? `, ${p.differing} disputed` : "") + (p.a_minute ? `, ${p.a_minute.toFixed(1)} a minute` : "");
    if (found.saved) $("#label-saved").textContent = `Saved as event ${found.saved}.`;
    if (found.undone) $("#label-saved").textContent = "The last label or skip is undone.";
    if (found.task === undefined) return;
    if (found.task === null) { panel.hidden = true; $("#label-done").hidden = false; return; }
    this.seen.push(found.task);
    this.show(this.seen.length - 1);
  }

  show(at) {
    if (at < 0 || at >= this.seen.length) return;
    this.at = at;
    const task = this.task;
    panel.hidden = false;
    $("#label-done").hidden = true;
    for (const name of ["criterion", "requirement", "query", "submission", "reference"]) this.part(name).textContent = task[name];
    this.part("has-reference").hidden = !task.reference;
    this.part("weight").textContent = `weight ${task.weight}${task.weight < 0 ? ", a pitfall: meeting it costs points" : ""}, item ${task.item}`;
    this.setQuote(task.quote ?? "");
    this.note.value = task.note ?? "";
    this.keys = new Map();
    const binary = task.choices.includes("CANNOT_ASSESS") && task.choices.includes("MET");
    this.part("choices").replaceChildren(...task.choices.map((choice, place) => {
      const key = binary ? String(place + 1) : LETTERS[place] ?? "";
      if (key) this.keys.set(key, choice);
      const button = document.createElement("button");
      const hint = document.createElement("kbd");
      hint.textContent = key;
      button.type = "button";
      if (choice === task.verdict) button.setAttribute("aria-pressed", "true");
      button.append(hint, binary || choice === "CANNOT_ASSESS" ? choice.replace("_", " ").toLowerCase() : choice);
      button.addEventListener("click", () => this.label(choice, button));
      return button;
    }));
    this.since = performance.now();
    $("#submission").scrollTop = 0;
  }

  setQuote(words) {
    this.quote = words;
    this.part("quote").textContent = words ? `Quote: “${words}”` : "";
    this.part("quote").hidden = !words;
  }

  body() {
    const { index, place } = this.task;
    return { index, place, note: this.note.value, seconds: (performance.now() - this.since) / 1000 };
  }

  async label(verdict) {
    const older = this.at < this.seen.length - 1;
    const open = this.seen.at(-1);
    const [task, said] = [this.task, { note: this.note.value, quote: this.quote, verdict }];
    const found = await this.send("label", { ...this.body(), ...said });
    if (found) Object.assign(task, said); // going back shows it
    // After an earlier pair was labelled again, show the open one.
    if (found && older && found.task && open.index === found.task.index && open.place === found.task.place) this.seen.splice(-2, 1), this.show(this.seen.length - 1);
  }

  takeQuote() {
    const chosen = getSelection();
    const words = chosen.toString().trim();
    if (words && $("#submission").contains(chosen.anchorNode)) this.setQuote(words.slice(0, 20000));
    else problem("Select words of the submission first.");
  }
}

if (panel) {
  const session = new Session();
  session.send("next");
  const undo = async () => { const found = await session.send("undo"); if (found && !found.undone) problem("There is nothing to undo."); };
  const acts = { undo, skip: () => session.task && session.send("skip", session.body()), quote: () => session.takeQuote() };
  for (const button of panel.querySelectorAll("[data-do]")) button.addEventListener("click", () => acts[button.dataset.do]());
  onKey("h", () => session.show(session.at - 1));
  onKey("l", () => session.show(session.at + 1));
  onKey("u", undo);
  onKey("s", acts.skip);
  onKey("q", acts.quote);
  onKey("n", () => session.note.focus());
  session.note.addEventListener("keydown", (event) => { if (event.key === "Escape") { session.note.blur(); event.stopPropagation(); } });
  document.addEventListener("keydown", (event) => {
    const choice = session.keys?.get(event.key);
    if (choice === undefined || panel.hidden || !isCommand(event)) return;
    event.preventDefault();
    session.label(choice);
  });
}

for (const article of document.querySelectorAll(".dispute")) {
  for (const button of article.querySelectorAll("[data-verdict]")) button.addEventListener("click", async () => {
    const { root, annotator, index, place } = article.dataset;
    try {
      await post(`${root}/adjudicate`, { annotator, index: Number(index), place: Number(place), verdict: button.dataset.verdict });
      article.remove();
      $("#disputes").textContent -= 1;
      if (!$(".dispute")) location.reload(); // the next ones, or that there are none
    } catch (error) { problem(`Not saved: ${error.message}`); }
  });
}
