/// Draws the spans of a ``TimelinePage``: a strip of the whole recording, and below it the part that the reader chooses.
enum TimelineScript {
    static let text = #"""
        "use strict";
        const namespace = "http://www.w3.org/2000/svg";
        const tip = document.getElementById("tip");
        const data = JSON.parse(document.getElementById("data").textContent);
        const rowHeight = 22, stripHeight = 46, axisHeight = 22;
        const titles = { queue: "main queue" };

        function element(name, attributes, parent) {
          const made = document.createElementNS(namespace, name);
          for (const key in attributes) made.setAttribute(key, attributes[key]);
          if (parent) parent.appendChild(made);
          return made;
        }

        function time(nanoseconds) {
          for (const [unit, name] of [[1e9, "s"], [1e6, "ms"], [1e3, "µs"]]) {
            if (Math.abs(nanoseconds) < unit) continue;
            const value = nanoseconds / unit;
            return value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2) + " " + name;
          }
          return Math.round(nanoseconds) + " ns";
        }

        function chart(section, recording) {
          const place = section.querySelector(".chart");
          const spans = recording.spans.map(s => ({
            kind: recording.names[s[0]], name: recording.names[s[1]], mode: recording.names[s[2]],
            depth: s[3], start: s[4], end: s[4] + s[5], isCut: (s[6] & 1) > 0, isOpen: (s[6] & 2) > 0 }));
          const length = recording.length;
          const depth = spans.reduce((most, span) => Math.max(most, span.depth), 0) + 1;
          const strip = element("svg", { class: "strip", height: stripHeight, "aria-label": "the whole recording" }, place);
          const detail = element("svg", { height: axisHeight + depth * rowHeight + 6, "aria-label": "the chosen time" }, place);
          let from = 0, to = length, width = 0, shown = [];

          // What takes longest of a point of time is what shows in it; callouts before all else.
          function drawStrip() {
            strip.replaceChildren();
            const columns = Array.from({ length: Math.ceil(width) }, () => ({}));
            const scale = width / length;
            for (const span of spans) {
              if (span.kind === "pass" || span.kind === "sleep") continue;
              const first = Math.max(0, Math.floor(span.start * scale));
              const last = Math.min(columns.length - 1, Math.floor(span.end * scale));
              for (let x = first; x <= last; x++) {
                const part = Math.min(span.end * scale, x + 1) - Math.max(span.start * scale, x);
                columns[x][span.kind] = (columns[x][span.kind] || 0) + part;
              }
            }
            const room = stripHeight - 8;
            columns.forEach((column, x) => {
              let y = stripHeight - 4;
              const sum = Object.values(column).reduce((a, b) => a + b, 0);
              for (const kind in column) {
                // Nested callouts are more than the whole; a short one is still seen.
                const height = Math.max(sum > 1 ? column[kind] / sum * room : column[kind] * room, 2);
                y -= height;
                element("rect", { x, y, width: 1, height, style: `fill:var(--${kind})` }, strip);
              }
            });
            element("rect", { class: "window", y: 1, height: stripHeight - 2 }, strip);
            moveWindow();
          }

          function moveWindow() {
            const window = strip.querySelector(".window");
            window.setAttribute("x", from / length * width);
            window.setAttribute("width", Math.max(2, (to - from) / length * width));
          }

          function drawAxis(scale) {
            const rough = (to - from) / Math.max(2, width / 110);
            const power = Math.pow(10, Math.floor(Math.log10(rough)));
            const step = [1, 2, 5, 10].map(n => n * power).find(s => s >= rough);
            for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
              const x = (t - from) * scale;
              element("line", { class: "axis", x1: x, x2: x, y1: 0, y2: axisHeight + depth * rowHeight }, detail);
              const label = element("text", { class: "tick", x: x + 4, y: 14 }, detail);
              if (x < width - 50) label.textContent = time(t);
            }
          }

          function draw() {
            detail.replaceChildren();
            const scale = width / (to - from);
            drawAxis(scale);
            shown = Array.from({ length: depth }, () => []);
            const ends = new Array(depth).fill(-1), small = Array.from({ length: depth }, () => new Map());
            for (const span of spans) {
              if (span.end < from || span.start > to) continue;
              const left = Math.max(0, (span.start - from) * scale), right = Math.min(width, (span.end - from) * scale);
              shown[span.depth].push({ span, left, right });
              if (right - left >= 1) { bar(span, left, right - left); continue; }
              // Spans of less than a pixel share one, in the color of the longest and as high as their share of the pixel.
              const x = Math.floor(left), former = small[span.depth].get(x) || { share: 0 };
              former.share += isCallout(span) ? right - left : 0;
              if (!former.span || rank(span) > rank(former.span)) former.span = span;
              small[span.depth].set(x, former);
            }
            small.forEach(row => row.forEach(({ span, share }, x) => bar(span, x, 1, isCallout(span) ? share : 1)));
            moveWindow();
          }

          function isCallout(span) {
            return span.kind !== "pass" && span.kind !== "sleep" && span.kind !== "polling";
          }

          function rank(span) {
            return (span.kind === "pass" || span.kind === "sleep" ? 0 : 1e18) + span.end - span.start;
          }

          function bar(span, x, wide, share = 1) {
            const y = axisHeight + span.depth * rowHeight, room = rowHeight - 3;
            const height = Math.min(room, Math.max(3, share * room));
            const attributes = { x, y: y + room - height, width: wide, height, rx: wide > 8 ? 3 : 0, style: `fill:var(--${span.kind})` };
            attributes.class = span.isOpen && wide > 4 && isCallout(span) ? "open" : wide > 3 ? "span" : "";
            element("rect", attributes, detail);
            const text = isCallout(span) ? span.name || span.kind : span.kind === "pass" ? span.mode : span.kind;
            const fitting = Math.floor((wide - 10) / 6.2);
            if (fitting < 3 || !text) return;
            const label = element("text", { class: isCallout(span) ? "inside" : "inside plain", x: x + 5, y: y + 13.5 }, detail);
            const characters = Array.from(text);
            label.textContent = characters.length > fitting ? characters.slice(0, fitting - 1).join("") + "…" : text;
          }

          function show(start, end) {
            const least = Math.min(1000, length), span = Math.min(length, Math.max(least, end - start));
            const middle = (start + end) / 2;
            from = Math.min(Math.max(0, middle - span / 2), length - span);
            to = from + span;
            draw();
          }

          function describe(span) {
            const lines = [(titles[span.kind] || span.kind) + (span.name && span.kind !== "sleep" ? ": " + span.name : "")];
            if (span.kind === "sleep" && span.name) lines.push("ended by: " + span.name);
            lines.push("took " + time(span.end - span.start) + (span.isOpen ? ", and goes on" : "") + (span.isCut ? ", and began before" : ""));
            lines.push("at " + time(span.start) + (span.mode ? ", mode " + span.mode : ""));
            return lines.join("\n");
          }

          function found(event) {
            const box = detail.getBoundingClientRect();
            const x = event.clientX - box.left, row = Math.floor((event.clientY - box.top - axisHeight) / rowHeight);
            const near = (shown[row] || []).filter(s => x >= s.left - 1.5 && x <= Math.max(s.right, s.left + 1) + 1.5);
            const hits = near.filter(s => x >= s.left && x <= s.right);
            const best = (hits.length ? hits : near).sort((a, b) => rank(b.span) - rank(a.span))[0];
            return best && { span: best.span, more: near.length - 1 };
          }

          function point(event) {
            const hit = found(event);
            tip.hidden = !hit;
            if (!hit) return;
            tip.textContent = describe(hit.span) + (hit.more > 0 ? `\nand ${hit.more} more here: zoom in` : "");
            const box = tip.getBoundingClientRect();
            tip.style.left = Math.min(event.clientX + 14, innerWidth - box.width - 8) + "px";
            tip.style.top = Math.min(event.clientY + 16, innerHeight - box.height - 8) + "px";
          }

          detail.addEventListener("wheel", event => {
            event.preventDefault();
            const at = from + (event.clientX - detail.getBoundingClientRect().left) / width * (to - from);
            if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
              const by = event.deltaX / width * (to - from);
              return show(from + by, to + by);
            }
            const factor = Math.exp(event.deltaY * 0.002), size = (to - from) * factor;
            const start = at - (at - from) / (to - from) * size;
            show(start, start + size);
          }, { passive: false });
          detail.addEventListener("dblclick", () => show(0, length));
          detail.addEventListener("pointerleave", () => { tip.hidden = true; });
          detail.addEventListener("pointermove", point);
          drag(detail, (start, now, first) => {
            const by = (start - now) / width * (first.to - first.from);
            show(first.from + by, first.to + by);
          });
          drag(strip, (start, now) => {
            const [a, b] = [start, now].map(x => x / width * length).sort((x, y) => x - y);
            show(a, b);
          });

          function drag(target, move) {
            target.addEventListener("pointerdown", down => {
              const box = target.getBoundingClientRect(), first = { from, to };
              target.setPointerCapture(down.pointerId);
              target.onpointermove = event => {
                if (Math.abs(event.clientX - down.clientX) > 2) move(down.clientX - box.left, event.clientX - box.left, first);
              };
              target.onpointerup = () => { target.onpointermove = null; };
            });
          }

          for (const row of section.querySelectorAll("tr[data-span]")) {
            const span = spans[row.dataset.span];
            const go = () => {
              const around = Math.max(span.end - span.start, 1000) * 1.5;
              show((span.start + span.end) / 2 - around, (span.start + span.end) / 2 + around);
              place.scrollIntoView({ block: "nearest" });
            };
            row.addEventListener("click", go);
            row.addEventListener("keydown", event => { if (event.key === "Enter") go(); });
          }

          new ResizeObserver(() => {
            if (place.clientWidth === width) return;
            width = place.clientWidth;
            drawStrip();
            draw();
          }).observe(place);
        }

        for (const section of document.querySelectorAll("section[data-recording]")) {
          chart(section, data[section.dataset.recording]);
        }
        """#
}
