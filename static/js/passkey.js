// Asks the browser for a passkey or security key and sends what it says with the form around the button. Without this
// script the buttons stay hidden; passwords and codes work all the same.
"use strict";
{
  const bytes = (text) => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (one) => one.charCodeAt(0));
  const text = (buffer) =>
    btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
  const described = (list) => (list ?? []).map((one) => ({ ...one, id: bytes(one.id) }));

  function toCreate({ publicKey }, isAlone) {
    const chosen = { ...publicKey.authenticatorSelection };
    chosen.residentKey = isAlone ? "required" : "discouraged";
    chosen.requireResidentKey = isAlone;
    if (isAlone) chosen.userVerification = "required";
    return {
      ...publicKey,
      challenge: bytes(publicKey.challenge),
      user: { ...publicKey.user, id: bytes(publicKey.user.id) },
      excludeCredentials: described(publicKey.excludeCredentials),
      authenticatorSelection: chosen,
    };
  }

  const toGet = ({ publicKey }) => ({
    ...publicKey,
    challenge: bytes(publicKey.challenge),
    allowCredentials: described(publicKey.allowCredentials),
  });

  function said(credential) {
    const { response } = credential;
    const parts = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
    const told = Object.fromEntries(parts.filter((name) => response[name]).map((name) => [name, text(response[name])]));
    if (response.getTransports) told.transports = response.getTransports();
    return JSON.stringify({
      id: credential.id,
      rawId: text(credential.rawId),
      type: credential.type,
      response: told,
      clientExtensionResults: credential.getClientExtensionResults(),
    });
  }

  async function optionsOf(form) {
    if (!form.dataset.options) return JSON.parse(document.getElementById("passkey-options").textContent);
    const answer = await fetch(form.dataset.options, { headers: { Accept: "application/json" }, cache: "no-store" });
    if (!answer.ok) throw new Error(`The server answered ${answer.status}.`);
    return (await answer.json()).request_options;
  }

  async function ask(form) {
    const options = await optionsOf(form);
    const credential =
      form.dataset.passkey === "create"
        ? await navigator.credentials.create({ publicKey: toCreate(options, form.elements.passwordless?.checked ?? false) })
        : await navigator.credentials.get({ publicKey: toGet(options) });
    form.elements.credential.value = said(credential);
    form.submit();
  }

  function show(error) {
    const place = document.querySelector("[data-passkey-problem]");
    const isStopped = error.name === "NotAllowedError";
    place.textContent = isStopped ? "It was cancelled or took too long. Try again." : `That did not work: ${error.message}`;
    place.hidden = false;
  }

  if (globalThis.PublicKeyCredential) {
    for (const button of document.querySelectorAll("[data-passkey-button]")) {
      button.hidden = false;
      button.addEventListener("click", () => ask(button.form).catch(show));
    }
  }
}
