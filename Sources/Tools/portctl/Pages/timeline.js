// Shows each loop's spans in a strip of the whole recording, and below it in the time that the reader chooses.

const tip = document.getElementById("tip");
const template = document.querySelector("template");
const mostRows = 20, leastZoom = 1000;

// Text

function time(nanoseconds) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [0, "ns"]];
  const [unit, name] = units.find(([unit]) => Math.abs(nanoseconds) >= unit);
  const value = nanoseconds / (unit || 1);
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2)} ${name}`;
}

function percent(part, whole) {
  if (whole <= 0 || part <= 0) return "0 %";
  const value = part / whole * 100;
  return value < 0.1 ? "under 0.1 %" : `${value.toFixed(value < 10 ? 1 : 0)} %`;
}

const isCallout = span => !["pass", "sleep", "polling"].includes(span.activity);
const itemName = span => span.label ?? (span.count > 1 ? `${span.count} together` : "");
const barText = span => itemName(span) || (span.activity === "pass" && span.mode || span.activity);

function describe(span, others) {
  const name = isCallout(span) && itemName(span) ? ": " + itemName(span) : "";
  const wakeUp = span.wakeUp ? [`ended by: ${span.wakeUp}`] : [];
  return [
    span.activity + name, ...wakeUp,
    "took " + time(span.nanoseconds) + (span.over ? "" : ", and goes on") + (span.begun ? "" : ", and began before"),
    "at " + time(span.start) + (span.mode ? ", mode " + span.mode : ""),
    ...others > 0 ? [`and ${others} more here: zoom in`] : [],
  ].join("\n");
}

// Tables

function row(...texts) {
  return make("tr", "", ...texts.map(text => make("td", "", ...[text].flat())));
}

function chip(span) {
  return [make("span", "chip " + span.activity, span.activity), " " + (itemName(span) || "without a label")];
}

function slowestRow(span, show) {
  const marks = [span.begun ? [] : "began before", span.over ? [] : "goes on"].flat().join(", ");
  const item = [...chip(span), make("span", "quiet", " " + marks)];
  const made = row(item, span.mode ?? "", time(span.start), time(span.nanoseconds));
  const around = Math.max(span.nanoseconds, leastZoom) * 1.5, middle = span.start + span.nanoseconds / 2;
  const go = () => show(middle - around, middle + around);
  made.tabIndex = 0;
  made.addEventListener("click", go);
  made.addEventListener("keydown", event => { if (event.key === "Enter") go(); });
  return made;
}

function itemRows(callouts, length) {
  const items = new Map();
  for (const span of callouts) {
    const key = JSON.stringify([span.activity, span.label]);
    const item = items.get(key) ?? { activity: span.activity, label: span.label, calls: 0, longest: 0, total: 0 };
    item.calls += span.count;
    item.longest = Math.max(item.longest, span.nanoseconds);
    item.total += span.nanoseconds;
    items.set(key, item);
  }
  return [...items.values()].sort((a, b) => b.total - a.total).slice(0, mostRows).map(item =>
    row(chip(item), String(item.calls), time(item.longest), time(item.total), percent(item.total, length)));
}

// The chart

// Puts bars for the spans of a time into a place. Spans of less than a pixel share one bar: it has the colour of the
// longest callout, and is as high as the callouts' share of the pixel.
function put(place, spans, from, to) {
  const width = place.clientWidth, scale = width / (to - from), bars = new Map();
  const rank = span => span.nanoseconds + (isCallout(span) ? to - from : 0);
  for (const span of spans) {
    const left = Math.max(0, (span.start - from) * scale);
    const right = Math.min(width, (span.start + span.nanoseconds - from) * scale);
    if (right < 0 || left > width) continue;
    const isSmall = right - left < 1, pixel = Math.floor(left);
    const key = isSmall ? `${span.depth} ${pixel}` : span;
    const [x, wide] = isSmall ? [pixel, 1] : [left, right - left];
    const bar = bars.get(key) ?? { span, left: x, width: wide, share: 0, count: 0 };
    bar.share += isSmall && isCallout(span) ? right - left : 1;
    bar.count += 1;
    if (rank(span) > rank(bar.span)) bar.span = span;
    bars.set(key, bar);
  }
  place.replaceChildren(...[...bars.values()].map(({ span, left, width, share, count }) => {
    const isWide = width > 30, isOpen = !span.over && isCallout(span) && width > 4;
    const className = span.activity + (isWide ? " wide" : "") + (isOpen ? " open" : "");
    const bar = Object.assign(make("i", className, isWide ? barText(span) : ""), { span, count });
    bar.style.cssText = `left:${left}px;width:${width}px;--depth:${span.depth};--share:${Math.min(1, share)}`;
    return bar;
  }));
}

function ticks(from, to, width) {
  const rough = (to - from) / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map(factor => factor * power).find(step => step >= rough);
  const count = Math.floor(to / step) - Math.ceil(from / step) + 1;
  return Array.from({ length: count }, (_, index) => (Math.ceil(from / step) + index) * step).map(at => {
    const tick = make("time", "", time(at));
    tick.style.left = `${(at - from) / (to - from) * 100}%`;
    return tick;
  });
}

// Calls `move` with the pixels at which a drag began and is now, and with the value that `begin` returned at its start.
function drag(target, begin, move) {
  target.addEventListener("pointerdown", down => {
    const left = target.getBoundingClientRect().left, first = begin();
    target.setPointerCapture(down.pointerId);
    target.onpointermove = event => {
      if (Math.abs(event.clientX - down.clientX) > 2) move(down.clientX - left, event.clientX - left, first);
    };
    target.onpointerup = () => { target.onpointermove = null; };
  });
}

function point(event) {
  const { span, count } = event.target;
  tip.hidden = !span;
  if (!span) return;
  tip.textContent = describe(span, count - 1);
  tip.style.left = `${Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)}px`;
  tip.style.top = `${Math.min(event.clientY + 16, innerHeight - tip.offsetHeight - 8)}px`;
}

// Returns a function that shows a time of the recording.
function chart(section, spans, length) {
  const [strip, detail, frame] = [".strip", ".detail", ".window"].map(name => section.querySelector(name));
  const callouts = spans.filter(isCallout);
  let from = 0, to = length;

  function show(start, end) {
    const size = Math.min(length, Math.max(leastZoom, end - start));
    from = Math.min(Math.max(0, (start + end - size) / 2), length - size);
    to = from + size;
    frame.style.left = `${from / length * 100}%`;
    frame.style.width = `${size / length * 100}%`;
    detail.querySelector(".axis").replaceChildren(...ticks(from, to, detail.clientWidth));
    put(detail.querySelector(".bars"), spans, from, to);
  }

  function zoom(event) {
    event.preventDefault();
    const size = to - from, box = detail.getBoundingClientRect();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
      const by = event.deltaX / box.width * size;
      return show(from + by, to + by);
    }
    const share = (event.clientX - box.left) / box.width, newSize = size * Math.exp(event.deltaY * 0.002);
    const start = from + share * (size - newSize);
    show(start, start + newSize);
  }

  detail.addEventListener("wheel", zoom, { passive: false });
  detail.addEventListener("dblclick", () => show(0, length));
  detail.addEventListener("pointermove", point);
  detail.addEventListener("pointerleave", () => { tip.hidden = true; });
  drag(detail, () => ({ from, to }), (start, now, first) => {
    const by = (start - now) / detail.clientWidth * (first.to - first.from);
    show(first.from + by, first.to + by);
  });
  drag(strip, () => null, (start, now) => {
    const times = [start, now].map(x => x / strip.clientWidth * length);
    show(Math.min(...times), Math.max(...times));
  });
  detail.style.setProperty("--rows", 1 + Math.max(0, ...new Set(spans.map(span => span.depth))));
  new ResizeObserver(() => {
    put(strip.querySelector(".bars"), callouts, 0, length);
    show(from, to);
  }).observe(strip);
  return show;
}

// The page

function addLoop(recording) {
  const section = template.content.cloneNode(true).querySelector("section");
  const length = Math.max(1, recording.nanoseconds), callouts = recording.spans.filter(isCallout);
  const shares = ["asleep", "inCallouts", "ownWork", "elsewhere"];
  fill(section, {
    ...recording, ...Object.fromEntries(shares.map(name => [name, percent(recording[name], length)])),
    recorded: time(recording.nanoseconds), passes: recording.spans.filter(span => span.activity === "pass").length,
  });
  for (const part of section.querySelectorAll("[data-share]")) {
    part.style.flexGrow = Math.max(0, recording[part.dataset.share]) / length;
    part.title += " " + percent(recording[part.dataset.share], length);
  }
  section.querySelector(".notice").hidden = recording.dropped === 0;
  const show = chart(section, recording.spans, length);
  const reveal = (from, to) => {
    show(from, to);
    section.querySelector(".chart").scrollIntoView({ block: "nearest" });
  };
  const slowest = [...callouts].sort((a, b) => b.nanoseconds - a.nanoseconds).slice(0, mostRows);
  section.querySelector(".slowest tbody").append(...slowest.map(span => slowestRow(span, reveal)));
  section.querySelector(".items tbody").append(...itemRows(callouts, length));
  template.before(section);
}

fill(document, { made, host, subject: content.subject });
document.title = document.querySelector("h1").textContent;
document.getElementById("none").hidden = content.recordings.length > 0;
content.recordings.forEach(addLoop);
