"use strict";
// The sample browser: filters are part of the URL, rows are shown page by page, and images and scores of a row are
// parsed when it is shown. Texts are inserted as text, never as HTML.
const editcritic = (() => {
  const PAGE = 24;
  const STATUSES = { s: "scored", n: "not applicable", a: "abstained", f: "failed", "-": "not evaluated" };
  const data = JSON.parse(document.getElementById("data").textContent);
  const chunks = new Map();
  const waiting = new Map();
  let images = null;
  let matches = [];

  const make = (name, properties = {}, ...children) => {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(properties)) {
      if (value === null || value === undefined || value === false) continue;
      if (key in node && key !== "list") node[key] = value;
      else node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
    return node;
  };
  const words = (text) => String(text).replaceAll("_", " ");
  const shown = (value) => (Math.abs(value) >= 100 ? value.toFixed(1) : value.toFixed(3));

  // -- filter state --------------------------------------------------------------------------------------------------

  const initialState = () => ({
    metric: data.metrics.length ? data.metrics[data.initial_metric].name : "", editor: "", status: "", min: "", max: "", q: "",
    item: "", sort: "lowest", page: "1", boxes: "1",
  });
  let state = initialState();

  const grouping = data.labels.map((label, at) => ({ ...label, at })).filter((label) => label.filter);

  function read() {
    state = initialState();
    const [anchor, query] = location.hash.slice(1).split("?");
    if (anchor !== "browser" || query === undefined) return;
    for (const [key, value] of new URLSearchParams(query)) state[key] = value;
  }

  function write() {
    const defaults = initialState();
    const query = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) if (value !== (defaults[key] ?? "")) query.set(key, value);
    const text = query.toString();
    try {
      history.replaceState(null, "", text ? `#browser?${text}` : "#browser");
    } catch {
      location.hash = text ? `browser?${text}` : "browser";
    }
  }

  // -- filter and sort -----------------------------------------------------------------------------------------------

  const [ITEM, EDITOR, MISSING, VALUES, CODES, REASONS] = [0, 1, 2, 3, 4, 5];

  function filteredRows() {
    const metric = Math.max(0, data.metrics.findIndex((candidate) => candidate.name === state.metric));
    const editor = state.editor === "" ? -1 : data.editors.indexOf(state.editor);
    const low = state.min === "" ? null : Number(state.min);
    const high = state.max === "" ? null : Number(state.max);
    const text = state.q.trim().toLowerCase();
    const labels = grouping
      .map((label) => [label.at, label.values.findIndex((value) => String(value) === state[`label.${label.name}`])])
      .filter(([at]) => (state[`label.${data.labels[at].name}`] ?? "") !== "");
    const searched = text === "" ? null : data.items.map((item) => `${item[0]}\n${item[1]}`.toLowerCase().includes(text));
    const reasonMatches = text === "" ? null : data.reasons.map((reason) => reason.toLowerCase().includes(text));
    const numbers = [];
    data.rows.forEach((row, number) => {
      if (editor >= 0 && row[EDITOR] !== editor) return;
      if (state.editor !== "" && editor < 0) return;
      const item = data.items[row[ITEM]];
      if (state.item !== "" && item[0] !== state.item) return;
      if (labels.some(([at, value]) => item[2][at] !== value)) return;
      const value = row[VALUES][metric];
      if (state.status !== "" && statusOf(row, metric) !== state.status) return;
      if (low !== null && (value === null || value === undefined || value < low)) return;
      if (high !== null && (value === null || value === undefined || value > high)) return;
      if (searched && !searched[row[ITEM]] && !row[REASONS].some((at) => at >= 0 && reasonMatches[at]) && !(row[MISSING] >= 0 && reasonMatches[row[MISSING]])) return;
      numbers.push(number);
    });
    return sorted(numbers, metric);
  }

  const statusOf = (row, metric) => (row[MISSING] >= 0 ? "missing" : STATUSES[row[CODES][metric] ?? "-"]);

  function sorted(numbers, metric) {
    const value = (number) => data.rows[number][VALUES][metric] ?? null;
    const compare = (a, b, difference) => {
      const [x, y] = [value(a), value(b)];
      if (x === null || y === null) return (x === null) - (y === null) || a - b;
      return difference(x, y) || a - b;
    };
    if (state.sort === "lowest") return numbers.sort((a, b) => compare(a, b, (x, y) => x - y));
    if (state.sort === "highest") return numbers.sort((a, b) => compare(a, b, (x, y) => y - x));
    if (state.sort === "spread") {
      const low = new Map();
      const high = new Map();
      for (const row of data.rows) {
        const score = row[VALUES][metric];
        if (score === null || score === undefined) continue;
        low.set(row[ITEM], Math.min(score, low.get(row[ITEM]) ?? score));
        high.set(row[ITEM], Math.max(score, high.get(row[ITEM]) ?? score));
      }
      const spread = (number) => (high.get(data.rows[number][ITEM]) ?? 0) - (low.get(data.rows[number][ITEM]) ?? 0);
      return numbers.sort((a, b) => spread(b) - spread(a) || a - b);
    }
    return numbers;
  }

  // -- chunks: images and scores -------------------------------------------------------------------------------------

  function addChunk(number, rows) {
    chunks.set(number, rows);
    for (const callback of waiting.get(number) ?? []) callback();
    waiting.delete(number);
  }

  function withRow(number, callback) {
    const chunk = Math.floor(number / data.chunk_size);
    const resolve = () => callback(chunks.get(chunk)[number % data.chunk_size]);
    if (chunks.has(chunk)) return resolve();
    if (data.folder === null) {
      const node = document.getElementById(`chunk${chunk}`);
      chunks.set(chunk, JSON.parse(node.textContent));
      node.remove();
      return resolve();
    }
    if (waiting.has(chunk)) return waiting.get(chunk).push(resolve);
    waiting.set(chunk, [resolve]);
    const script = make("script", { src: `${encodeURIComponent(data.folder)}/chunk${chunk}.js` });
    script.onerror = () => {
      document.getElementById("count").append(` Images and scores are missing: the folder ${data.folder} must lie beside this page.`);
      waiting.delete(chunk);
    };
    document.head.append(script);
  }

  function source(key) {
    if (data.folder !== null) return `${encodeURIComponent(data.folder)}/${key}.webp`;
    images ??= JSON.parse(document.getElementById("images").textContent);
    return images[key];
  }

  // -- cards ---------------------------------------------------------------------------------------------------------

  function card(number) {
    const row = data.rows[number];
    const [id, instruction, labels] = data.items[row[ITEM]];
    const metric = Math.max(0, data.metrics.findIndex((candidate) => candidate.name === state.metric));
    const labelTexts = data.labels.map((label, at) => (labels[at] < 0 || !(label.filter || typeof label.values[0] === "string") ? "" : `${words(label.name)} ${words(label.values[labels[at]])}`));
    const strip = make("div", { className: "strip" });
    const tree = make("details", {}, make("summary", {}, "parts and evidence"));
    const others = data.editors.length > 1
      ? make("a", { href: `#browser?${new URLSearchParams({ item: id, metric: state.metric, sort: "order" })}` }, "all editors") : "";
    const reason = row[MISSING] >= 0 ? data.reasons[row[MISSING]]
      : row[REASONS][metric] >= 0 ? `${data.metrics[metric].name}: ${data.reasons[row[REASONS][metric]]}` : "";
    const article = make("article", { "data-row": number },
      make("div", { className: "head" }, make("b", {}, data.editors[row[EDITOR]]), make("span", {}, id),
        make("span", {}, labelTexts.filter(Boolean).join(", ")), others),
      make("p", { className: "instruction" }, instruction), strip, values(row, metric),
      reason ? make("p", { className: `reason${row[MISSING] >= 0 ? " none" : ""}` }, reason) : "", tree);
    withRow(number, (details) => {
      fill(strip, details.p, instruction);
      if (!Object.keys(details.s).length) tree.remove();
      else {
        const unfold = () => { if (tree.childElementCount === 1) tree.append(branches(details.s)); };
        tree.addEventListener("toggle", unfold, { once: true });
        if (state.item !== "") {
          unfold();
          tree.open = true;
        }
      }
    });
    return article;
  }

  function values(row, metric) {
    const list = make("dl", { className: "values" });
    data.metrics.forEach((entry, at) => {
      const value = row[VALUES][at] ?? null;
      const code = row[CODES][at] ?? "-";
      if (code === "-" && value === null) return;
      const selected = at === metric ? "selected" : "";
      const track = make("dd", { className: entry.share && value !== null ? "track" : "" });
      if (entry.share && value !== null) {
        const bar = make("span");
        bar.style.width = `${100 * value}%`;
        track.append(bar);
      }
      const text = value !== null ? shown(value) : STATUSES[code];
      list.append(make("dt", { className: selected }, entry.name), track,
        make("dd", { className: value === null ? (code === "n" ? "soft" : "none") : selected }, text));
    });
    return list;
  }

  function fill(strip, shots, instruction) {
    const colours = new Map();
    for (const shot of shots) {
      const on = make("div", { className: "on" });
      if (shot.key !== undefined) {
        const coarse = Math.max(...shot.size) <= 96;
        on.append(make("img", { src: source(shot.key), alt: `${shot.role}: ${instruction.slice(0, 80)}`, loading: "lazy",
          width: shot.size[0], height: shot.size[1], className: coarse ? "coarse" : "" }));
        for (const [left, top, wide, high, score, label] of shot.boxes ?? []) {
          if (!colours.has(label)) colours.set(label, colours.size % 8);
          const box = make("span", { className: `box c${colours.get(label)}`, title: `${label || "box"} ${score}` });
          const [x, y] = [Math.max(0, left), Math.max(0, top)];
          box.style.left = `${x}%`;
          box.style.top = `${y}%`;
          box.style.width = `${Math.min(100, left + wide) - x}%`;
          box.style.height = `${Math.min(100, top + high) - y}%`;
          on.append(box);
        }
      } else on.append(make("p", { className: "unavailable" }, shot.note));
      const warning = shot.key !== undefined && shot.note ? make("p", { className: "warn" }, shot.note) : "";
      strip.append(make("div", { className: "shot" }, on, make("p", {}, shot.role), warning));
    }
    if (colours.size) {
      strip.after(make("ul", { className: "legend-boxes" }, ...[...colours].slice(0, 12).map(([label, colour]) =>
        make("li", {}, make("i", { className: `c${colour}` }), (label || "unlabelled").slice(0, 60)))));
    }
  }

  function branches(scores) {
    return make("ul", { className: "tree" }, ...Object.entries(scores).map(([name, score]) => {
      const value = score.v !== undefined ? shown(score.v) : score.st;
      const node = make("li", {}, make("b", {}, `${name}: ${value}`), score.r ? ` ${score.r}` : "");
      if (score.e) node.append(make("ul", { className: "tree" }, ...score.e.map(evidence)));
      if (score.in) node.append(branches(score.in));
      return node;
    }));
  }

  function evidence([what, text, numbers, boxes]) {
    const named = Object.entries(numbers).map(([name, value]) => `${name} ${value}`);
    if (boxes) named.push(`${boxes} ${boxes === 1 ? "box" : "boxes"}`);
    return make("li", {}, what, named.length ? ` (${named.join(", ")})` : "", text ? make("span", { className: "reply" }, text) : "");
  }

  // -- controls ------------------------------------------------------------------------------------------------------

  function select(name, title, options) {
    const box = make("select", { name });
    for (const [value, text] of options) box.append(make("option", { value, selected: value === (state[name] ?? "") }, text));
    return make("label", {}, title, box);
  }

  function input(name, title, type, more = {}) {
    return make("label", {}, title, make("input", { name, type, value: state[name] ?? "", ...more }));
  }

  function controls() {
    const form = document.getElementById("filters");
    const any = ["", "any"];
    const statuses = ["scored", "not applicable", "abstained", "failed", "not evaluated", "missing"];
    form.replaceChildren(
      data.editors.length > 1 ? select("editor", "editor", [["", "all"], ...data.editors.map((editor) => [editor, editor])]) : "",
      select("metric", "metric", data.metrics.map((entry) => [entry.name, entry.name])),
      select("status", "status", [any, ...statuses.map((status) => [status, status])]),
      input("min", "value from", "number", { step: "any" }), input("max", "to", "number", { step: "any" }),
      ...grouping.map((label) => select(`label.${label.name}`, words(label.name), [any, ...label.values.map((value) => [String(value), words(value)])])),
      input("q", "text, id or reason", "search"),
      select("sort", "sort", [["lowest", "lowest first"], ["highest", "highest first"], ["spread", "largest difference between editors"], ["order", "suite order"]]),
      make("label", { className: "check" }, make("input", { type: "checkbox", name: "boxes", checked: state.boxes === "1" }), "boxes"),
      make("button", { type: "reset" }, "clear"),
    );
  }

  let timer = 0;
  function changed(event) {
    const { name, type, checked, value } = event.target;
    if (!name) return;
    state[name] = type === "checkbox" ? (checked ? "1" : "0") : value;
    if (name !== "boxes") state.page = "1";
    if (name === "editor" || name === "q") state.item = "";
    clearTimeout(timer);
    timer = setTimeout(() => { write(); show(); }, type === "search" || type === "number" ? 150 : 0);
  }

  function turn(page) {
    state.page = String(page);
    write();
    show();
    document.getElementById("browser").scrollIntoView();
  }

  function show() {
    matches = filteredRows();
    const pages = Math.max(1, Math.ceil(matches.length / PAGE));
    const page = Math.min(pages, Math.max(1, Math.floor(Number(state.page)) || 1));
    const rows = matches.slice((page - 1) * PAGE, page * PAGE);
    const counted = `${matches.length} of ${data.rows.length} edits${pages > 1 ? `, page ${page} of ${pages}` : ""}`;
    const only = state.item === "" ? "" : make("button", { type: "button", onclick: () => { state.item = ""; write(); show(); } }, `only ${state.item}: show all`);
    document.getElementById("count").replaceChildren(counted, " ", only);
    const cards = document.getElementById("cards");
    cards.classList.toggle("unboxed", state.boxes !== "1");
    cards.replaceChildren(...rows.map(card));
    const pager = document.getElementById("pager");
    pager.replaceChildren();
    if (pages > 1) {
      const number = make("input", { type: "number", min: 1, max: pages, value: page, "aria-label": "page" });
      number.addEventListener("change", () => turn(number.value));
      pager.append(make("button", { type: "button", disabled: page === 1, onclick: () => turn(page - 1) }, "previous"), number,
        `of ${pages}`, make("button", { type: "button", disabled: page === pages, onclick: () => turn(page + 1) }, "next"));
    }
  }

  function start() {
    read();
    controls();
    show();
    if (location.hash.startsWith("#browser")) document.getElementById("browser").scrollIntoView();
  }

  const form = document.getElementById("filters");
  form.addEventListener("input", changed);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    state = initialState();
    write();
    controls();
    show();
  });
  window.addEventListener("hashchange", () => { if (location.hash.startsWith("#browser")) start(); });
  // A phone shows the edits first; a wider window has no summary to open the controls by.
  document.getElementById("controls").open = !matchMedia("(max-width: 620px)").matches;
  queueMicrotask(start);
  return { addChunk };
})();
