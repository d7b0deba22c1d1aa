// SPDX-License-Identifier: Apache-2.0
// One visit of a page by Chromium: reads {url, script, args, width, height, dark, flags} as JSON, runs the script with
// the page, and writes {result, said}: what it returned, and what the browser complained of.
import {createRequire} from "node:module";
import {readFileSync} from "node:fs";

const require = createRequire(import.meta.url);
const {chromium} = require("playwright-core");
const {url, script, args, width, height, dark, flags, executable} = JSON.parse(readFileSync(0, "utf8"));

const browser = await chromium.launch({executablePath: executable, args: flags});
const context = await browser.newContext({viewport: {width, height}, colorScheme: dark ? "dark" : "light"});
const page = await context.newPage(), said = [];
page.setDefaultTimeout(40000);
page.on("console", message => {
  if (message.type() === "error" || message.type() === "warning")
    said.push(message.text());
});
page.on("pageerror", error => said.push(String(error.stack || error)));

// All rules of axe, good practice included. The page's own policy forbids scripts from elsewhere, so axe comes by the
// debugger, which is no part of the page.
async function axe(on = page) {
  const session = await on.context().newCDPSession(on);
  await session.send("Runtime.evaluate", {expression: readFileSync(require.resolve("axe-core/axe.min.js"), "utf8")});
  const found = await session.send("Runtime.evaluate", {
    expression: `axe.run().then(found => JSON.stringify(found.violations.map(
      one => [one.id, one.nodes.map(node => node.html + ": " + node.failureSummary)])))`,
    awaitPromise: true});
  return JSON.parse(found.result.value);
}

try {
  await page.goto(url);
  const run = new (Object.getPrototypeOf(async () => {}).constructor)("page", "args", "axe", "context", "said", script);
  const result = await run(page, args, axe, context, said);
  process.stdout.write(JSON.stringify({result: result === undefined ? null : result, said}));
} finally {
  await browser.close();
}
