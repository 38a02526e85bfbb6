/** The API key: kept for this tab only, and asked for when the server wants one. */

const PLACE = "rhapsode-key";

let asked = () => {};

export function givenKey() {
  return sessionStorage.getItem(PLACE) ?? "";
}

/** Shows the form; the server's message is an error only where a key was given. */
export function askForKey(message) {
  asked(message);
}

/** Connects the form of the page to the key; `retry` is called with every new one. */
export function mountKey(form, retry) {
  const field = form.querySelector("input");
  const error = form.querySelector(".error");
  field.value = givenKey();
  asked = (message) => {
    form.hidden = false;
    if (givenKey()) {
      error.textContent = message;
      field.setAttribute("aria-invalid", "true");
    }
    field.focus();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    sessionStorage.setItem(PLACE, field.value.trim());
    error.textContent = "";
    field.removeAttribute("aria-invalid");
    if (await retry()) form.hidden = true;
  });
}
