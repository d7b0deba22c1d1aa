// SPDX-License-Identifier: Apache-2.0
// Chromium for browser.py, driven by Playwright. The first line that comes says which one; each other line is {script, args}, a
// script that is run with the page, and is answered by a line {result} or {error}, with what the browser complained of (said),
// asked, and received since the last one.
import {createInterface} from "node:readline";
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";

const require = createRequire(import.meta.url);
const {chromium} = require("playwright-core");
const lines = createInterface({input: process.stdin})[Symbol.asyncIterator]();
const {executable, flags, width, height, dark} = JSON.parse((await lines.next()).value);

const browser = await chromium.launch({executablePath: executable, args: flags});
const context = await browser.newContext({viewport: {width, height}, colorScheme: dark ? "dark" : "light"});
const said = [], asked = [];
let received = 0;  // bytes, as they came

// Playwright tells of no icon and of no data:, so the debugger is asked.
async function watch(page) {
  page.setDefaultTimeout(40000);
  page.on("console", message => {
    if (["error", "warning", "assert"].includes(message.type()))
      said.push(`${message.text()} ${message.location().url}`.trim());
  });
  page.on("pageerror", error => said.push(String(error?.stack || error)));
  page.on("crash", () => said.push("the page crashed"));
  const session = await context.newCDPSession(page);
  session.on("Network.requestWillBeSent", one => asked.push(one.request.url));
  session.on("Network.loadingFinished", one => { received += one.encodedDataLength; });
  await session.send("Network.enable");
  return page;
}

const page = await watch(await context.newPage());
context.on("page", other => watch(other).catch(() => {}));  // one that a page opened may be gone already

// All rules of axe, good practice included. The page's own policy forbids scripts from elsewhere, so axe comes by the
// debugger, which is no part of the page.
async function axe(on = page) {
  const session = await on.context().newCDPSession(on);
  await session.send("Runtime.evaluate", {expression: readFileSync(require.resolve("axe-core/axe.min.js"), "utf8")});
  const found = await session.send("Runtime.evaluate", {
    expression: `axe.run().then(found => JSON.stringify(found.violations.map(
      one => [one.id, one.nodes.map(node => node.html + ": " + node.failureSummary)])))`,
    awaitPromise: true});
  await session.detach();
  return JSON.parse(found.result.value);
}

const text_of = selector => page.locator(selector).innerText();
const shown = (selector, what) => page.locator(selector).filter({hasText: what}).first().waitFor();

// Until it holds. Not while a page gives way to another.
async function until(expression, timeout_s) {
  for (const end = Date.now() + timeout_s * 1000; ;) {
    const holds = await page.evaluate(`!!(${expression})`).catch(error => {
      if (!/context|navigat/i.test(error.message))
        throw error;
    });
    if (holds)
      return;
    if (Date.now() > end)
      throw new Error(`not within ${timeout_s} s: ${expression}`);
    await new Promise(resolve => setTimeout(resolve, 50));
  }
}

const scope = {page, context, axe, text_of, shown, until};
const Script = Object.getPrototypeOf(async () => {}).constructor;
for await (const line of lines) {
  const {script, args} = JSON.parse(line), answer = {};
  try {
    // Inside another function: it may have names of its own that are those of the scope.
    const run = new Script("args", ...Object.keys(scope), `return (async () => {${script}\n})();`);
    answer.result = await run(args, ...Object.values(scope)) ?? null;
  } catch (error) {
    answer.error = String(error?.stack || error);
  }
  process.stdout.write(JSON.stringify({...answer, said: said.splice(0), asked: asked.splice(0), received}) + "\n");
  received = 0;
}
await browser.close();
