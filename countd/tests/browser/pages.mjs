// Uses the demo and the console in headless Chromium, as a person would: by clicks, by keyboard, in light and in dark. axe-core must find no
// violation, and no page may log an error or break its content security policy. Run by scripts/test-browser.
//
// DEMO_URL and CONSOLE_URL are processes without and with tokens, TOKEN is one with the right `admin`, CHROMIUM the program. With SCREENSHOTS,
// a directory, it also takes the pictures of the documentation.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import puppeteer from "puppeteer-core";

const { DEMO_URL, CONSOLE_URL, TOKEN, CHROMIUM, SCREENSHOTS } = process.env;
const AXE = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
// Milliseconds: no condition takes longer on a slow machine.
const TIMEOUT = 120_000;

const browser = await puppeteer.launch({
  executablePath: CHROMIUM,
  headless: true,
  // As root, Chromium has no sandbox; a container may have little shared memory.
  args: ["--no-sandbox", "--disable-dev-shm-usage", "--hide-scrollbars"],
  defaultViewport: { width: 1280, height: 860 },
});
const errors = [];

async function open() {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT);
  page.on("pageerror", (error) => errors.push(`${page.url()}: ${error}`));
  page.on("console", (message) => {
    if (message.type() === "error") { errors.push(`${page.url()}: ${message.text()}`); }
  });
  return page;
}

// Looks for violations in both colour schemes.
async function checkAccessibility(page, name) {
  for (const value of ["light", "dark"]) {
    await page.emulateMediaFeatures([
      { name: "prefers-color-scheme", value },
      // Colours of an animation would be measured.
      { name: "prefers-reduced-motion", value: "reduce" },
    ]);
    await page.evaluate(AXE);
    const { violations } = await page.evaluate(() => globalThis.axe.run());
    const found = violations.map((one) => `${one.id}: ${one.nodes.map((node) => node.html).join(" | ")}`);
    assert.deepEqual(found, [], `${name}, ${value}`);
  }
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: "light" }]);
  console.log(`${name}: ok`);
}

async function takePicture(page, name) {
  if (SCREENSHOTS) { await page.screenshot({ path: join(SCREENSHOTS, `${name}.png`), optimizeForSpeed: false }); }
}

const numberIn = (page, selector) => page.$eval(selector, (element) => Number(element.textContent.replace(/\D/g, "")));

const waitForNumber = (page, selector, least) =>
  page.waitForFunction(
    (of, min) => Number(document.querySelector(of).textContent.replace(/\D/g, "")) >= min,
    {}, selector, least,
  );

// Follows a link or sends a form.
const follow = (page, action) => Promise.all([page.waitForNavigation(), action]);

// Acts as two users of the demo. Returns the page, with a load of 1,000 events a second.
async function useDemo() {
  const page = await open();
  await page.goto(`${DEMO_URL}/demo`);
  await page.waitForFunction(() => document.getElementById("state").textContent.startsWith("Live"));
  const [ana, ben] = await page.$$eval("[data-uid]", (feeds) => feeds.map((feed) => feed.dataset.uid));
  const button = (uid, metric) => `[data-uid="${uid}"] li:first-child [data-metric="${metric}"]`;
  const count = (uid, metric) => `${button(uid, metric)} [data-count]`;
  const pressed = (uid, metric, value) =>
    page.waitForSelector(`${button(uid, metric)}[aria-pressed="${value}"]`);
  const likes = await numberIn(page, count(ben, "like"));
  await page.click(button(ana, "like"));
  await pressed(ana, "like", true);
  await waitForNumber(page, count(ben, "like"), likes + 1);
  assert.equal(await page.$eval(button(ben, "like"), (one) => one.getAttribute("aria-pressed")), "false");
  // By keyboard, too.
  await page.focus(button(ben, "fav"));
  await page.keyboard.press("Space");
  await pressed(ben, "fav", true);
  const reads = await numberIn(page, count(ana, "read"));
  await page.click(button(ben, "read"));
  await waitForNumber(page, count(ana, "read"), reads + 1);
  await page.focus("#load");
  for (let press = 0; press < 10; press += 1) { await page.keyboard.press("ArrowRight"); }
  assert.equal(await page.$eval("#load-value", (one) => one.textContent), "1,000 events/s");
  await waitForNumber(page, "#counted", 3_000);
  await takePicture(page, "demo");
  return page;
}

// Ends the load.
async function endDemo(page) {
  await page.focus("#load");
  await page.keyboard.press("Home");
  await page.waitForFunction(() => document.getElementById("lag").textContent === "0");
  const like = '[data-uid] li:first-child [data-metric="like"]';
  await page.click(`${like}[aria-pressed="true"]`);
  await page.waitForFunction((of) => document.querySelector(of).getAttribute("aria-pressed") === "false", {}, like);
  await checkAccessibility(page, "demo");
}

async function useConsole(demo) {
  const page = await open();
  await page.goto(`${CONSOLE_URL}/admin`);
  assert.equal(new URL(page.url()).pathname, "/admin/login");
  await checkAccessibility(page, "login");
  await page.focus("#token");
  await page.keyboard.type(TOKEN);
  await follow(page, page.keyboard.press("Enter"));
  assert.equal(new URL(page.url()).pathname, "/admin");
  assert.equal(await page.evaluate(() => document.cookie), "", "no script reads the cookie");
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.className), "skip");
  await follow(page, page.keyboard.press("Enter"));
  assert.equal(new URL(page.url()).hash, "#content");
  const select = async (path) => {
    await follow(page, page.click(`nav a[href="${path}"]`));
    assert.equal(new URL(page.url()).pathname, path);
  };
  // Until the process has compared counters and has hot entities.
  do { await select("/admin"); } while (!(await page.$("meter") && await page.$("tbody a")));
  // The script has read the figures twice, and events were counted in between.
  await page.waitForFunction(() => /[1-9].*\/s$/.test(document.querySelector('[data-rate="counted"]').textContent));
  await takePicture(page, "console");
  await checkAccessibility(page, "overview");
  await endDemo(demo);

  await select("/admin/entity");
  await checkAccessibility(page, "entity, search");
  await page.select("#etype", "note");
  await page.type("#eid", "1");
  await follow(page, page.keyboard.press("Enter"));
  await page.waitForFunction(() => document.querySelector("h2").textContent === "note 1");
  await takePicture(page, "console-entity");
  await checkAccessibility(page, "entity");
  await follow(page, page.click('a[href="/admin/user?uid=7"]'));
  await checkAccessibility(page, "user");

  await select("/admin/audit");
  await checkAccessibility(page, "audit");
  await page.type("#source", "adjust");
  await follow(page, page.click("button.primary"));
  assert.equal((await page.$$("tbody tr")).length, 1);
  await page.type("#eid", "404");
  await follow(page, page.click("button.primary"));
  assert.equal((await page.$$("tbody tr")).length, 0);
  await select("/admin/reconciliation");
  await takePicture(page, "console-reconciliation");
  await checkAccessibility(page, "reconciliation");
  await select("/admin/schemas");
  await takePicture(page, "console-schemas");
  await checkAccessibility(page, "schemas");

  await select("/admin/dead");
  await takePicture(page, "console-dead-letters");
  await checkAccessibility(page, "dead letters");
  assert.equal((await page.$$("tbody tr")).length, 3);
  // The first one can be counted by now.
  await page.click('tbody tr:first-child input[type="checkbox"]');
  await follow(page, page.click('button[value="retry"]'));
  assert.match(await page.$eval("[role=status]", (one) => one.textContent), /1 retried, 0 left/);
  assert.equal((await page.$$("tbody tr")).length, 2);
  await page.click('thead input[type="checkbox"]');
  await follow(page, page.click('button[value="drop"]'));
  await checkAccessibility(page, "confirmation");
  await follow(page, page.click("main button.danger"));
  assert.match(await page.$eval("[role=status]", (one) => one.textContent), /2 dropped, 0 left/);
  assert.equal(await page.$("tbody tr"), null);

  await follow(page, page.click(".bar form button"));
  assert.equal(new URL(page.url()).pathname, "/admin/login");
  await page.goto(`${CONSOLE_URL}/admin/dead`);
  assert.equal(new URL(page.url()).pathname, "/admin/login");
}

try {
  await useConsole(await useDemo());
  assert.deepEqual(errors, []);
} finally {
  await browser.close();
}
