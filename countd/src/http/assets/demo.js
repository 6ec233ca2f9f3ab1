// The demo: everything it shows is a request of the HTTP API that a client of countd would send.
"use strict";
(() => {
  const API = "/api/v1";
  const ETYPE = "note";
  // Milliseconds: the pause between two reads of the feeds, between two batches of the load, and between two reads of the figures.
  const FEED_PAUSE = 300;
  const BATCH_PAUSE = 200;
  const FIGURES_PAUSE = 1000;
  // The users of the load: their first ID, and their number.
  const CROWD = { first: 9100000000, size: 20000 };

  const feeds = [...document.querySelectorAll("[data-uid]")];
  const eids = [...feeds[0].querySelectorAll("[data-eid]")].map((post) => post.dataset.eid);
  const numbers = new Intl.NumberFormat("en");
  const state = document.getElementById("state");
  const slider = document.getElementById("load");
  const wanted = document.getElementById("load-value");

  // The state of the stream of changes, which is shown unless the last request failed.
  let stream = state.textContent;
  const report = (text) => { if (state.textContent !== text) { state.textContent = text; } };
  const reportStream = (text) => { stream = text; report(text); };

  // Sends a request. Errors are shown, and the answer is then undefined.
  async function request(path, type, body) {
    try {
      const options = body === undefined ? {} : { method: "POST", headers: { "content-type": type }, body };
      const response = await fetch(path, options);
      if (!response.ok) {
        const problem = await response.json().catch(() => ({}));
        report(`countd answered ${response.status}: ${problem.detail ?? ""}`);
        return undefined;
      }
      report(stream);
      return response;
    } catch {
      report("countd cannot be reached.");
      return undefined;
    }
  }

  const post = (path, body) => request(path, "application/json", JSON.stringify(body));

  // Shows a number, and highlights it if it changed.
  function show(element, number) {
    const text = numbers.format(number);
    if (element.textContent === text) { return; }
    element.textContent = text;
    const button = element.closest("button");
    if (button) {
      button.classList.remove("changed");
      void button.offsetWidth;
      button.classList.add("changed");
    }
  }

  async function readFeed(feed) {
    const items = eids.map((eid) => ({ etype: ETYPE, eid }));
    const answer = await post(`${API}/feed`, { uid: feed.dataset.uid, items, metrics: ["read", "like", "fav"] });
    if (!answer) { return; }
    for (const item of (await answer.json()).items) {
      const element = feed.querySelector(`[data-eid="${CSS.escape(item.eid)}"]`);
      if (!element || item.error) { continue; }
      for (const button of element.querySelectorAll("button")) {
        const metric = button.dataset.metric;
        show(button.querySelector("[data-count]"), item.counts[metric] ?? 0);
        if (metric in item.status) { button.setAttribute("aria-pressed", String(item.status[metric])); }
      }
    }
  }

  // Reads the feeds of both users. Changes that arrive meanwhile cause one more read.
  let reading = false;
  let outdated = false;
  async function readFeeds() {
    if (reading) { outdated = true; return; }
    reading = true;
    do {
      outdated = false;
      await Promise.all(feeds.map(readFeed));
      await new Promise((resolve) => setTimeout(resolve, FEED_PAUSE));
    } while (outdated);
    reading = false;
  }

  function act(event) {
    const button = event.target.closest("button[data-metric]");
    if (!button) { return; }
    const metric = button.dataset.metric;
    const op = button.getAttribute("aria-pressed") === "true" ? "remove" : "add";
    const uid = button.closest("[data-uid]").dataset.uid;
    const eid = button.closest("[data-eid]").dataset.eid;
    post(`${API}/action/${metric}`, { etype: ETYPE, eid, uid, op }).then((answer) => {
      if (answer && metric !== "read") { readFeeds(); }
    });
  }

  function follow() {
    const changes = new EventSource(`${API}/changes?etype=${ETYPE}`);
    const isShown = new Set(eids);
    changes.onopen = () => { reportStream("Live: changes arrive through GET /changes."); readFeeds(); };
    changes.onmessage = (event) => {
      if (JSON.parse(event.data).some((entity) => isShown.has(entity.eid))) { readFeeds(); }
    };
    changes.addEventListener("reset", readFeeds);
    changes.onerror = () => {
      reportStream("Waiting for countd: GET /changes was interrupted.");
      // After an error response a browser does not try again.
      if (changes.readyState === EventSource.CLOSED) { setTimeout(follow, 2000); }
    };
  }

  const pick = (size) => Math.floor(Math.random() * size);

  // Four of five actions are reads.
  function randomAction() {
    const metric = ["read", "read", "read", "read", "read", "read", "read", "read", "like", "fav"][pick(10)];
    return JSON.stringify({ metric, etype: ETYPE, eid: eids[pick(eids.length)], uid: String(CROWD.first + pick(CROWD.size)) });
  }

  // Sends the load of the slider. A batch waits for the one before.
  async function sendLoad() {
    let since = performance.now();
    for (;;) {
      await new Promise((resolve) => setTimeout(resolve, BATCH_PAUSE));
      const now = performance.now();
      const actions = Math.min(Math.round(Number(slider.value) * (now - since) / 1000), 5000);
      since = now;
      if (actions > 0 && !document.hidden) {
        const lines = Array.from({ length: actions }, randomAction).join("\n");
        await request(`${API}/actions`, "application/x-ndjson", lines);
      }
    }
  }

  let last;
  async function readFigures() {
    const answer = await request("/demo/figures");
    if (answer) {
      const figures = await answer.json();
      const now = performance.now();
      for (const name of ["appended", "counted", "lag"]) { show(document.getElementById(name), figures[name]); }
      if (last) {
        const seconds = (now - last.now) / 1000;
        const rate = (name) => `${numbers.format(Math.max(0, Math.round((figures[name] - last.figures[name]) / seconds)))}/s`;
        document.getElementById("appended-rate").textContent = rate("appended");
        document.getElementById("counted-rate").textContent = rate("counted");
      }
      last = { figures, now };
    }
    setTimeout(readFigures, FIGURES_PAUSE);
  }

  const showLoad = () => { wanted.textContent = `${numbers.format(Number(slider.value))} events/s`; };
  slider.addEventListener("input", showLoad);
  document.addEventListener("click", act);
  showLoad();
  readFeeds();
  follow();
  sendLoad();
  readFigures();
})();
