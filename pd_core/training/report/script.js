"use strict";
const { runs, charts } = JSON.parse(document.getElementById("data").textContent);
const COLORS = 8, LEFT = 50, RIGHT = 10, TOP = 8, BOTTOM = 38, FEW = 30;
const shown = { smoothing: 0, log: false, runs: new Set(), kinds: new Set() }; // the sets: hidden

// JSON has no numbers for these.
function number(value) {
    return typeof value === "number" ? value : { inf: Infinity, "-inf": -Infinity }[value] ?? NaN;
}

function svg(name, attributes, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (parent) parent.append(element);
    return element;
}

// Short texts for the ticks of an axis.
function labels(values) {
    const largest = Math.max(...values.map(Math.abs));
    if (largest < 1e4 || largest >= 1e12) return values.map(format);
    const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 4 });
    return values.map(value => compact.format(value).replace(/^-/, "\u2212"));
}

// At most four digits, and no more zeros than it takes.
function format(value) {
    if (!Number.isFinite(value)) return Number.isNaN(value) ? "NaN" : value < 0 ? "\u2212inf" : "inf";
    const size = Math.abs(value);
    const text = size && (size < 1e-3 || size >= 1e7)
        ? value.toExponential(3).replace(/\.?0+e/, "e").replace("e+", "e")
        : Number(value.toPrecision(size >= 1000 ? 7 : 4)).toLocaleString("en", { maximumSignificantDigits: 7 });
    return text.replace(/^-/, "\u2212");
}

// The exponential moving average without its bias to zero; what is not finite is left out. A curve
// of few points, such as one of tests, stays as it is.
function smooth(values, weight) {
    if (!weight || values.length < FEW) return values;
    let sum = 0, total = 0;
    return values.map(value => {
        if (!Number.isFinite(value)) return value;
        sum = sum * weight + value * (1 - weight);
        total = total * weight + 1 - weight;
        return sum / total;
    });
}

// Round numbers inside of a range, about `count` of them.
function ticks(low, high, count) {
    const rough = (high - low) / count, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5].find(m => m * power >= rough) || 10);
    const first = Math.ceil(low / step - 1e-9), last = Math.floor(high / step + 1e-9);
    return Array.from({ length: last - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(12)));
}

function logTicks(low, high) {
    const decades = high - low;
    if (decades < 0.7) return ticks(10 ** low, 10 ** high, 4).filter(v => v > 0);
    const every = Math.ceil(decades / 5), found = [];
    for (let power = Math.floor(low); power <= high; power += 1)
        for (const m of decades < 2 ? [1, 2, 5] : [1])
            if (power % every === 0) found.push(m * 10 ** power);
    return found.filter(v => Math.log10(v) >= low - 1e-9 && Math.log10(v) <= high + 1e-9);
}

function nearest(steps, wanted) {
    let low = 0, high = steps.length - 1;
    while (low < high) {
        const middle = (low + high) >> 1;
        if (steps[middle] < wanted) low = middle + 1; else high = middle;
    }
    return low && wanted - steps[low - 1] < steps[low] - wanted ? low - 1 : low;
}

class Chart {
    constructor(figure, { series }) {
        this.clip = `clip${figure.dataset.chart}`;
        this.svg = figure.querySelector(".chart");
        this.tip = figure.querySelector(".tip");
        this.series = series.map(s => ({ ...s, y: s.y.map(number) }));
        this.svg.addEventListener("pointermove", event => this.point(event.offsetX));
        this.svg.addEventListener("pointerdown", event => this.point(event.offsetX));
        this.svg.addEventListener("pointerleave", () => this.leave());
        this.svg.addEventListener("blur", () => this.leave());
        this.svg.addEventListener("keydown", event => this.key(event));
        new ResizeObserver(() => this.draw()).observe(this.svg);
    }

    // Scales of the visible curves, then everything anew.
    draw() {
        const { clientWidth: width, clientHeight: height } = this.svg;
        if (!width) return;
        this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
        this.leave();
        this.svg.replaceChildren();
        const visible = this.visible = this.series.filter(s => !shown.runs.has(s.run) && !shown.kinds.has(s.kind));
        for (const s of visible) s.smooth = smooth(s.y, shown.smoothing);
        const fits = v => Number.isFinite(v) && !(shown.log && v <= 0);
        const values = visible.flatMap(s => s.smooth.filter(fits)).map(this.scale);
        const steps = visible.flatMap(s => [s.x[0], s.x[s.x.length - 1]]);
        if (!visible.length) return this.say("No curve is selected");
        let low = values.reduce((a, b) => Math.min(a, b), Infinity);
        let high = values.reduce((a, b) => Math.max(a, b), -Infinity);
        if (!values.length) [low, high] = [0, 1];
        const margin = (high - low) * 0.04 || Math.abs(high) * 0.05 || 0.5;
        [low, high] = [low - margin, high + margin];
        const first = Math.min(...steps), last = Math.max(...steps, first + 1);
        const right = width - RIGHT, bottom = height - BOTTOM;
        this.x = step => LEFT + (step - first) / (last - first) * (right - LEFT);
        this.y = value => bottom - (this.scale(value) - low) / (high - low) * (bottom - TOP);
        this.step = x => first + (x - LEFT) / (right - LEFT) * (last - first);
        this.axes(width, bottom, first, last, shown.log ? logTicks(low, high) : ticks(low, high, 4));
        const clip = svg("clipPath", { id: this.clip }, this.svg);
        svg("rect", { x: LEFT, y: 0, width: right - LEFT + 4, height: bottom + 1 }, clip);
        this.lines = svg("g", { "clip-path": `url(#${this.clip})` }, this.svg);
        const isTrain = s => s.kind === "" || s.kind === "train";
        for (const s of [...visible.filter(isTrain), ...visible.filter(s => !isTrain(s))]) {
            if (s.smooth !== s.y) this.line(s, s.y, "line faint", fits);
            if (!isTrain(s)) this.line(s, s.smooth, "line halo", fits);
            this.line(s, s.smooth, `line ${s.kind}`, fits);
            this.odd(s, bottom);
        }
        this.rule = svg("g", {}, this.svg);
    }

    scale(value) { return shown.log ? Math.log10(value) : value; }

    say(words) {
        svg("text", { x: "50%", y: "50%", "text-anchor": "middle" }, this.svg).textContent = words;
    }

    axes(width, bottom, first, last, values) {
        labels(values).forEach((text, k) => {
            const y = this.y(values[k]);
            svg("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: y, y2: y }, this.svg);
            svg("text", { x: LEFT - 8, y: y + 4, "text-anchor": "end" }, this.svg).textContent = text;
        });
        const steps = ticks(first, last, Math.max(2, Math.round(width / 110)));
        labels(steps).forEach((text, k) => {
            const x = this.x(steps[k]), anchor = x > width - 30 ? "end" : x < LEFT + 8 ? "start" : "middle";
            svg("text", { x, y: bottom + 17, "text-anchor": anchor }, this.svg).textContent = text;
        });
        const middle = { x: (LEFT + width - RIGHT) / 2, y: bottom + 33, "text-anchor": "middle" };
        svg("text", middle, this.svg).textContent = "batches";
    }

    line(s, values, name, fits) {
        let path = "", pen = "M";
        values.forEach((value, k) => {
            if (!fits(value)) { pen = "M"; return; }
            path += `${pen}${this.x(s.x[k]).toFixed(1)} ${this.y(value).toFixed(1)}`;
            pen = "L";
        });
        svg("path", { class: name, d: path, "data-color": s.run % COLORS, "data-run": s.run }, this.lines);
        if (s.x.length < FEW && !/faint|halo/.test(name))
            values.forEach((value, k) => fits(value) && this.dot(s, k, value, this.lines, 2.5));
    }

    dot(s, k, value, parent, r) {
        svg("circle", { class: "dot", cx: this.x(s.x[k]), cy: this.y(value), r, "data-color": s.run % COLORS }, parent);
    }

    // A cross at the bottom for what is not finite.
    odd(s, bottom) {
        s.y.forEach((value, k) => {
            if (Number.isFinite(value)) return;
            const d = `M${this.x(s.x[k]) - 3} ${bottom - 8}l6 6m0 -6l-6 6`;
            svg("path", { class: "odd", d, "data-color": s.run % COLORS }, this.lines);
        });
    }

    // The values next to a place of the pointer.
    point(x) {
        if (!this.visible.length) return;
        const wanted = this.step(x);
        const at = this.visible.map(s => nearest(s.x, wanted));
        const steps = this.visible.map((s, k) => s.x[at[k]]);
        this.current = steps.reduce((a, b) => Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a);
        this.rule.replaceChildren();
        const place = this.x(this.current);
        svg("line", { class: "rule", x1: place, x2: place, y1: TOP, y2: this.svg.clientHeight - BOTTOM }, this.rule);
        const heading = document.createElement("b");
        heading.textContent = `batch ${format(this.current)}`;
        this.tip.replaceChildren(heading);
        this.visible.forEach((s, k) => {
            const value = s.y[at[k]], smoothed = s.smooth[at[k]];
            if (Number.isFinite(smoothed) && !(shown.log && smoothed <= 0)) this.dot(s, at[k], smoothed, this.rule, 4);
            this.tip.append(this.row(s, value, smoothed, steps[k]));
        });
        this.tip.hidden = false;
        const left = place + 14 + this.tip.offsetWidth > this.svg.clientWidth ? place - 14 - this.tip.offsetWidth : place + 14;
        this.tip.style.left = `${Math.max(0, left)}px`;
    }

    row(s, value, smoothed, step) {
        const row = document.createElement("div"), name = document.createElement("span");
        const color = document.createElement("i"), text = document.createElement("span");
        color.className = "swatch";
        color.dataset.color = s.run % COLORS;
        name.append(color, s.kind ? `${runs[s.run]} ${s.kind}` : runs[s.run]);
        text.textContent = format(value);
        const more = [];
        if (s.smooth !== s.y) more.push(`smoothed ${format(smoothed)}`);
        if (step !== this.current) more.push(`at ${format(step)}`);
        if (more.length) {
            const note = document.createElement("em");
            note.textContent = ` ${more.join(", ")}`;
            text.append(note);
        }
        row.append(name, text);
        return row;
    }

    leave() {
        this.tip.hidden = true;
        this.current = undefined;
        if (this.rule) this.rule.replaceChildren();
    }

    // Arrow keys go from point to point of the longest curve.
    key(event) {
        const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (event.key === "Escape") this.leave();
        if (!move || !this.visible.length) return;
        event.preventDefault();
        const steps = this.visible.map(s => s.x).reduce((a, b) => b.length > a.length ? b : a);
        const k = this.current === undefined ? (move > 0 ? -1 : steps.length) : nearest(steps, this.current);
        this.point(this.x(steps[Math.min(Math.max(k + move, 0), steps.length - 1)]));
    }
}

const drawn = [...document.querySelectorAll("figure")].map((figure, k) => new Chart(figure, charts[k]));

let due = 0;
function redraw() {
    cancelAnimationFrame(due);
    due = requestAnimationFrame(() => drawn.forEach(chart => chart.draw()));
}

for (const button of document.querySelectorAll(".legend button"))
    button.addEventListener("click", () => {
        const { run, kind } = button.dataset;
        const [hidden, key] = run === undefined ? [shown.kinds, kind] : [shown.runs, Number(run)];
        const hides = !hidden.delete(key);
        if (hides) hidden.add(key);
        button.setAttribute("aria-pressed", String(!hides));
        redraw();
    });
document.getElementById("smoothing").addEventListener("input", event => {
    shown.smoothing = Number(event.target.value);
    document.getElementById("weight").value = event.target.value;
    redraw();
});
document.getElementById("log").addEventListener("change", event => {
    shown.log = event.target.checked;
    redraw();
});
document.querySelector(".controls").addEventListener("submit", event => event.preventDefault());
