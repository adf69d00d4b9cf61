// Boxes on the source, by mouse, finger or key, each around the object that is chosen of the plan's. What is drawn is
// written into the text field of the boxes, in pixels of the source, and what is typed there is drawn.
const field = () => document.querySelector("#rank-boxes textarea");
const named = (selector) => document.querySelectorAll(`#rank-plan ${selector}`);
const frame = () => element.querySelector(".frame");
const boxes = () => JSON.parse(frame().dataset.boxes);
const chosen = () => named("[aria-checked=true]")[0]?.dataset.name;

let from = null; // where a drag began
let cursor = null; // the box that keys move

function keep(drawn) {
  frame().dataset.boxes = JSON.stringify(drawn);
  field().value = Object.keys(drawn).length ? JSON.stringify(drawn) : "";
  field().dispatchEvent(new Event("input", { bubbles: true }));
  draw();
}

function add([x0, y0, x1, y1]) {
  element.querySelector(".source-help").textContent = chosen()
    ? ""
    : "Type the instruction first: a box is drawn around an object that it names.";
  if (x1 - x0 < 2 || y1 - y0 < 2 || !chosen()) return draw();
  const drawn = boxes();
  keep({ ...drawn, [chosen()]: [...(drawn[chosen()] ?? []), [x0, y0, x1, y1]] });
}

function remove(name, number) {
  const drawn = boxes();
  drawn[name].splice(number, 1);
  if (!drawn[name].length) delete drawn[name];
  keep(drawn);
}

function draw(unfinished) {
  for (const old of frame().querySelectorAll(".box")) old.remove();
  const all = Object.entries(boxes()).flatMap(([name, list]) => list.map((corners, number) => [name, number, corners]));
  if (unfinished) all.push([chosen() ?? "", -1, unfinished]);
  for (const [name, number, corners] of all) {
    const node = addBox(frame(), corners);
    node.append(made("span", { textContent: name }));
    if (number >= 0) {
      node.append(
        made("button", { type: "button", textContent: "×", ariaLabel: `remove the box of ${name}`, onclick: () => remove(name, number) }),
      );
    }
  }
}

document.addEventListener("click", (event) => {
  const name = event.target.closest("#rank-plan [data-name]");
  if (name) for (const one of named("[data-name]")) one.setAttribute("aria-checked", String(one === name));
});

element.addEventListener("click", (event) => {
  if (event.target.closest("[data-do=undo]")) undo();
});

// What is typed as JSON. What is no such JSON is told when it is scored.
document.addEventListener("change", (event) => {
  if (event.target !== field() || !frame()) return;
  try {
    const typed = JSON.parse(field().value || "{}");
    const valid = Object.values(typed).every((list) => list.every((corners) => corners.length === 4));
    frame().dataset.boxes = JSON.stringify(valid ? typed : {});
  } catch {
    frame().dataset.boxes = "{}";
  }
  draw();
});

function undo() {
  const [name, list] = Object.entries(boxes()).at(-1) ?? [];
  if (name !== undefined) remove(name, list.length - 1);
}

element.addEventListener("pointerdown", (event) => {
  if (!event.target.closest(".frame") || event.button !== 0 || event.target.closest("button")) return;
  event.preventDefault();
  frame().focus({ preventScroll: true });
  from = corner(event, frame());
  frame().setPointerCapture(event.pointerId);
});
element.addEventListener("pointermove", (event) => {
  if (from) draw(between(from, corner(event, frame())));
});
element.addEventListener("pointerup", (event) => {
  if (!from) return;
  const box = between(from, corner(event, frame()));
  from = null;
  add(box);
});
element.addEventListener("pointercancel", () => {
  from = null;
  draw();
});

element.addEventListener("keydown", (event) => {
  if (event.target !== frame()) return;
  const [width, height] = sizeOf(frame());
  const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
  if (step) {
    cursor ??= [0.4 * width, 0.4 * height, 0.6 * width, 0.6 * height].map(Math.round);
    const [dx, dy] = [Math.round((step[0] * width) / 100), Math.round((step[1] * height) / 100)];
    const moved = [cursor[2] + dx, cursor[3] + dy];
    cursor = event.shiftKey
      ? [cursor[0], cursor[1], bounded(Math.max(moved[0], cursor[0] + 2), width), bounded(Math.max(moved[1], cursor[1] + 2), height)]
      : shifted(cursor, dx, dy, width, height);
    draw(cursor);
  } else if (event.key === "Enter" && cursor) {
    const box = cursor;
    cursor = null;
    add(box);
  } else if (event.key === "Backspace") undo();
  else if (event.key === "Escape" && cursor) {
    cursor = null;
    draw();
  } else return;
  event.preventDefault();
  event.stopPropagation();
});

function shifted([x0, y0, x1, y1], dx, dy, width, height) {
  const [x, y] = [Math.min(Math.max(dx, -x0), width - x1), Math.min(Math.max(dy, -y0), height - y1)];
  return [x0 + x, y0 + y, x1 + x, y1 + y];
}

// Another picture has no boxes.
watch("value", () => {
  from = cursor = null;
  if (frame() && field()) keep({});
});
