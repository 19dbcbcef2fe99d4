// ---- Who asks: without login, or as a user ----

let login = null; // the user and password; kept until the page is closed or the user logs out

// Say as whom the console is connected, and offer a login where the listener takes passwords.
function showLogin(rights) {
  const takes = Peer.takesPasswords;
  $("log-in").hidden = !takes;
  $("log-out").hidden = !login;
  set($("rights"), `${login ? `as ${login.user}` : "without login"}: ${rights}${login || takes || !Peer.offered ? "" : "; this listener takes no passwords"}`);
}
async function logIn() {
  $("insecure").hidden = window.isSecureContext;
  $("credentials").hidden = !window.isSecureContext;
  const wanted = await agreed($("login")), user = $("user").value, password = $("password").value;
  $("password").value = "";
  if (wanted && window.isSecureContext) become({ user, password });
}
function become(other) {
  login = other;
  if (peer) peer.close();
  peer = opening = null;
  if (rows) rows.update([], 0); // what the one before could see
  $("steps").replaceChildren();
  set($("did"), "");
  tell("");
  watch();
}
$("log-in").onclick = logIn;
$("log-out").onclick = () => {
  become(null);
  $("log-in").focus(); // the button that had it is gone
};
