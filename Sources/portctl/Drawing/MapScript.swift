/// Sorts and searches the rows of a ``MapPage``, and draws the lines between them where they stand.
enum MapScript {
    static let text = #"""
        "use strict";
        const map = document.getElementById("map"), canvas = map.querySelector("svg");
        const [search, order, found] = ["search", "order", "found"].map(id => document.getElementById(id));
        const [owners, senders] = [".owners", ".senders"].map(side => map.querySelector(side));
        const ports = [...owners.querySelectorAll(".row")], edges = [...senders.querySelectorAll(".row")];
        const portOf = new Map(ports.map(port => [port.dataset.port, port]));
        const process = row => row.closest(".process");
        const isShown = row => !row.hidden && !process(row).hidden;
        const handle = port => port.querySelector("summary");
        let chosen = null;

        // The rows that a row is to do with: itself, and the other ends of its lines.
        function related(row) {
          const lines = row.tagName === "DETAILS" ? edges.filter(edge => edge.dataset.port === row.dataset.port) : [row];
          return { lines: lines.filter(isShown), ports: [portOf.get(row.dataset.port)] };
        }

        function choose(row) {
          chosen = row;
          const { lines, ports: ends } = row ? related(row) : { lines: [], ports: [] };
          for (const one of edges) one.classList.toggle("on", lines.includes(one));
          for (const one of ports) one.classList.toggle("on", ends.includes(one));
          for (const path of canvas.children) path.classList.toggle("on", lines.includes(path.edge));
          canvas.classList.toggle("chosen", lines.length > 0);
        }

        function draw() {
          const box = map.getBoundingClientRect();
          canvas.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
          canvas.replaceChildren();
          if (getComputedStyle(canvas).display === "none") return;
          for (const edge of edges) {
            const port = portOf.get(edge.dataset.port);
            if (!isShown(edge) || !isShown(port)) continue;
            const [from, to] = [process(edge), process(port)].map(one => one.getBoundingClientRect());
            const [first, last] = [edge, handle(port)].map(one => one.getBoundingClientRect());
            const [x1, x2] = [from.right - box.left, to.left - box.left], bend = (x2 - x1) / 2;
            const [y1, y2] = [first, last].map(one => (one.top + one.bottom) / 2 - box.top);
            const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
            path.setAttribute("class", "edge " + port.dataset.state);
            // A thousand times as many messages are a line three times as wide.
            path.setAttribute("stroke-width", 1.2 + 0.5 * Math.min(6, Math.floor(Math.log10(+edge.dataset.sent + 1))));
            path.setAttribute("d", `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`);
            path.edge = edge;
            canvas.appendChild(path);
          }
          choose(chosen);
        }

        const byName = (a, b) => a.dataset.name.localeCompare(b.dataset.name, undefined, { numeric: true });
        const most = field => (a, b) => b.dataset[field] - a.dataset[field] || byName(a, b);
        const orders = {
          name: byName, waiting: most("waiting"), taken: most("taken"),
          trouble: (a, b) => a.dataset.rank - b.dataset.rank || byName(a, b) };

        // A process stands where its first port does; a sender about where its ports are, so that few lines cross.
        function arrange() {
          const sorted = [...ports].sort(orders[order.value]);
          for (const port of sorted) process(port).append(port);
          for (const one of new Set(sorted.map(process))) owners.append(one);
          const place = new Map([...owners.querySelectorAll(".row")].map((port, index) => [port.dataset.port, index]));
          const at = edge => place.get(edge.dataset.port);
          for (const edge of [...edges].sort((a, b) => at(a) - at(b))) process(edge).append(edge);
          const center = one => {
            const all = [...one.querySelectorAll(".row")].map(at);
            return all.reduce((a, b) => a + b, 0) / all.length;
          };
          const boxes = [...new Set(edges.map(process))].map(one => [center(one), one]);
          for (const [, one] of boxes.sort((a, b) => a[0] - b[0])) senders.append(one);
          draw();
        }

        // Of a port that is found, all lines are shown; of a sender that is found, its own, with the ports at their ends.
        function filter() {
          const words = search.value.toLowerCase().split(/\s+/).filter(word => word);
          const has = text => words.every(word => text.toLowerCase().includes(word));
          const kept = new Set(ports.filter(port => has(`${port.dataset.name} ${port.dataset.state} ${process(port).dataset.text}`)));
          const left = edges.filter(edge => kept.has(portOf.get(edge.dataset.port)) || has(process(edge).dataset.text));
          for (const edge of left) kept.add(portOf.get(edge.dataset.port));
          for (const edge of edges) edge.hidden = !left.includes(edge);
          for (const port of ports) port.hidden = !kept.has(port);
          for (const one of map.querySelectorAll(".process")) one.hidden = !one.querySelector(".row:not([hidden])");
          found.textContent = words.length ? `${kept.size} of ${ports.length} ports` : "";
          draw();
        }

        function open(port) {
          if (!isShown(port)) { search.value = ""; filter(); }
          port.open = true;
          handle(port).focus();
          port.scrollIntoView({ block: "nearest" });
        }

        for (const row of [...ports, ...edges]) {
          row.addEventListener("pointerenter", () => choose(row));
          row.addEventListener("pointerleave", () => choose(null));
          row.addEventListener("focusin", () => choose(row));
          row.addEventListener("focusout", () => choose(null));
        }
        for (const edge of edges) edge.addEventListener("click", () => open(portOf.get(edge.dataset.port)));
        for (const link of document.querySelectorAll(".troubles a")) {
          link.addEventListener("click", event => { event.preventDefault(); open(portOf.get(link.dataset.port)); });
        }
        search.addEventListener("input", filter);
        order.addEventListener("change", arrange);
        document.addEventListener("keydown", event => {
          if (event.ctrlKey || event.metaKey || event.altKey) return;
          const { key, target } = event;
          if (key === "Escape") { search.value = ""; filter(); return; }
          if (target === order || key === "/" && target === search) return;
          if (key === "/") { event.preventDefault(); search.focus(); return; }
          if (key !== "ArrowDown" && key !== "ArrowUp") return;
          event.preventDefault();
          const side = target.closest?.(".senders") || owners;
          const rows = [...side.querySelectorAll("summary, button.row")].filter(one => isShown(one.closest(".row")));
          const step = key === "ArrowDown" ? 1 : -1, at = rows.indexOf(target);
          rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))]?.focus();
        });
        new ResizeObserver(draw).observe(map);
        arrange();
        """#
}
