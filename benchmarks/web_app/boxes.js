// Boxes on a picture, for scripts that stand behind this one. A frame has its picture's size in pixels as data-width and
// data-height.
const bounded = (value, high) => Math.round(Math.min(Math.max(value, 0), high));
const sizeOf = (frame) => [Number(frame.dataset.width), Number(frame.dataset.height)];

// Where an event lies, in pixels of the picture.
function corner(event, frame) {
  const area = frame.getBoundingClientRect();
  const [width, height] = sizeOf(frame);
  return [
    bounded(((event.clientX - area.left) / area.width) * width, width),
    bounded(((event.clientY - area.top) / area.height) * height, height),
  ];
}

function between([x0, y0], [x1, y1]) {
  return [Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)];
}

function made(tag, properties) {
  return Object.assign(document.createElement(tag), properties);
}

function addBox(frame, [x0, y0, x1, y1]) {
  const [width, height] = sizeOf(frame);
  const node = made("div", { className: "box" });
  Object.assign(node.style, {
    left: `${(100 * x0) / width}%`,
    top: `${(100 * y0) / height}%`,
    width: `${(100 * (x1 - x0)) / width}%`,
    height: `${(100 * (y1 - y0)) / height}%`,
  });
  frame.append(node);
  return node;
}
