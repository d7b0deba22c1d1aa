// SPDX-License-Identifier: Apache-2.0
// The beat: asks again and again, and draws what came.

function state(text, bad) {
  element("state").textContent = text;
  element("state").className = bad ? "bad" : "";
}

async function beat() {
  beating = true;
  try {
    while (take(await ask(`/v1/hour?after=${after}`)));
    if (asked++ % SLOW_EVERY === 0) {
      show_limits(await ask("/v1/limits"));
      show_top(await ask("/v1/top?n=20"));
      show_nodes(await ask("/v1/nodes"));
      show_state(await ask("/v1/state"));
    }
    element("ask").hidden = true;
    element("shown").hidden = false;
    state("live", false);
    draw();
  } catch (error) {
    if (error instanceof Unauthorized) {
      element("shown").hidden = true;
      element("ask").hidden = false;
      element("wrong").textContent = token ? error.message : "";
      state("a token is needed", false);
      token = "";
      beating = false;
      return; // until one is given
    }
    asked = 0;
    state(`this server does not answer: ${error.message}`, true);
  }
  setTimeout(beat, EVERY_MS);
}

element("ask").addEventListener("submit", event => {
  event.preventDefault();
  token = element("token").value;
  element("token").value = "";
  if (!beating)
    beat();
});
element("spans").addEventListener("change", event => {
  span = Number(event.target.value);
  draw();
});
window.addEventListener("resize", draw);
for (const details of document.querySelectorAll("details"))
  details.addEventListener("toggle", draw);
beat();
