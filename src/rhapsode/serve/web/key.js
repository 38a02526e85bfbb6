/** The API key: kept for this tab only, and asked for once a server wants one. */

const PLACE = "rhapsode-key";

let asked = () => {};

export function givenKey() {
  return sessionStorage.getItem(PLACE) ?? "";
}

/** Show the field, with what the server said. */
export function askForKey(message) {
  asked(message);
}

/** Wire the form of the page to the key; `retry` is called with every new one. */
export function mountKey(form, retry) {
  const field = form.querySelector("input");
  const told = form.querySelector(".error");
  field.value = givenKey();
  asked = (message) => {
    form.hidden = false;
    told.textContent = message;
    field.setAttribute("aria-invalid", "true");
    field.focus();
  };
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    sessionStorage.setItem(PLACE, field.value.trim());
    told.textContent = "";
    field.removeAttribute("aria-invalid");
    if (await retry()) form.hidden = true;
  });
}
