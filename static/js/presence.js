// Says that the page is in sight, again and again while it is, and shows who else looks at the same.
"use strict";
{
  const form = document.querySelector("form[data-beat-s]");

  async function look() {
    if (document.hidden) return;
    const answer = await fetch(form.action, { method: "POST", body: new FormData(form), cache: "no-store", redirect: "manual" });
    if (answer.ok) form.querySelector("[data-others]").innerHTML = await answer.text();
  }

  const lookAgain = () => look().catch(() => {}); // a server that is away is told of elsewhere
  if (form) {
    lookAgain();
    setInterval(lookAgain, 1000 * Number(form.dataset.beatS));
    document.addEventListener("visibilitychange", lookAgain);
  }
}
