/** The page: asks what is served, then shows the views. */

import { ApiError, models } from "./api.js";
import { showLoading } from "./health.js";
import { askForKey, mountKey } from "./key.js";
import { Tabs } from "./tabs.js";
import { mountTheme } from "./theme.js";
import { CloneView } from "./views/clone.js";
import { CompareView } from "./views/compare.js";
import { ServerView } from "./views/server.js";
import { SpeakView } from "./views/speak.js";
import { TalkView } from "./views/talk.js";
import { refreshVoices } from "./voices.js";

const RETRY_MS = 1000;
const at = (id) => document.getElementById(id);

/** Returns whether there is something to show. */
async function start() {
  try {
    const served = await models();
    await refreshVoices();
    at("told").textContent = "";
    at("told").classList.remove("loading");
    mount(served);
    showLoading(at("told"), served[0].id);
    return true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    at("told").classList.toggle("loading", error.status !== 401);
    if (error.status === 401) {
      at("told").textContent = "";
      askForKey(error.message);
    } else {
      at("told").textContent = `${error.message} Trying again …`;
      setTimeout(start, RETRY_MS);
    }
    return false;
  }
}

function mount(served) {
  const speak = new SpeakView(served);
  const [{ id, summary }] = served;
  at("served").textContent = id;
  at("served").title = summary;
  new Tabs(at("tabs"), at("views"), {
    speak: { label: "Speak", view: speak },
    talk: { label: "Type to talk", view: new TalkView(served) },
    clone: { label: "Clone", view: new CloneView(served) },
    compare: { label: "Compare", view: new CompareView(served) },
    server: { label: "Server", view: new ServerView(() => speak.request()) },
  });
}

mountTheme(at("theme"));
mountKey(at("key"), start);
start();
