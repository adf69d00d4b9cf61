// The pictures of a question: zoom all of them at one place, show the source instead of the edits, draw boxes.
const find = (selector) => element.querySelector(selector);

// -- zoom and source ---------------------------------------------------------------------------------------------------

function look(event, frame) {
  const area = frame.getBoundingClientRect();
  find(".label-pictures").style.setProperty("--x", `${(100 * (event.clientX - area.left)) / area.width}%`);
  find(".label-pictures").style.setProperty("--y", `${(100 * (event.clientY - area.top)) / area.height}%`);
}

function toggle(name) {
  const on = find(".label-pictures").classList.toggle(name);
  find(`[data-do=${{ zoomed: "zoom", flipped: "flip" }[name]}]`)?.setAttribute("aria-pressed", String(on));
}

// -- boxes -------------------------------------------------------------------------------------------------------------

let from = null;

const boxes = (frame) => JSON.parse(frame.dataset.boxes);

function keep(frame, drawn) {
  frame.dataset.boxes = JSON.stringify(drawn);
  draw(frame);
}

function draw(frame, unfinished) {
  for (const old of frame.querySelectorAll(".box")) old.remove();
  [...boxes(frame), ...(unfinished ? [unfinished] : [])].forEach((box, number) => {
    const remove = made("button", { type: "button", textContent: "×", ariaLabel: `remove box ${number + 1}` });
    remove.dataset.remove = number;
    addBox(frame, box).append(remove);
  });
}

// -- events, of whatever question is shown -----------------------------------------------------------------------------

element.addEventListener("click", (event) => {
  const tool = event.target.closest("[data-do]")?.dataset.do;
  const drawing = find(".drawing");
  if (tool === "zoom") toggle("zoomed");
  if (tool === "flip") toggle("flipped");
  if (tool === "undo") keep(drawing, boxes(drawing).slice(0, -1));
  if (event.target.dataset.remove) keep(drawing, boxes(drawing).filter((_, number) => number !== Number(event.target.dataset.remove)));
  const frame = event.target.closest(".frame");
  if (frame && !drawing) {
    look(event, frame);
    toggle("zoomed");
  }
});

element.addEventListener("pointerdown", (event) => {
  const frame = event.target.closest(".drawing");
  if (!frame || event.button !== 0 || event.target.closest("button")) return;
  event.preventDefault();
  from = corner(event, frame);
  frame.setPointerCapture(event.pointerId);
});

element.addEventListener("pointermove", (event) => {
  const frame = event.target.closest(".frame");
  if (!frame) return;
  if (!frame.classList.contains("drawing")) look(event, frame);
  else if (from) draw(frame, between(from, corner(event, frame)));
});

element.addEventListener("pointerup", (event) => {
  const frame = event.target.closest(".drawing");
  if (!frame || !from) return;
  const box = between(from, corner(event, frame));
  from = null;
  keep(frame, box[2] > box[0] && box[3] > box[1] ? [...boxes(frame), box] : boxes(frame));
});

element.addEventListener("pointercancel", () => {
  from = null;
  if (find(".drawing")) draw(find(".drawing"));
});

function shown() {
  from = null;
  if (find(".drawing")) draw(find(".drawing"));
}

watch("value", shown);
shown();
