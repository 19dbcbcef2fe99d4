// ---- SCRAM (RFC 5802, RFC 7677): each side proves that it knows the password, which neither sends ----

const SCRAMS = { "SCRAM-SHA-512": "SHA-512", "SCRAM-SHA-384": "SHA-384", "SCRAM-SHA-256": "SHA-256", "SCRAM-SHA-1": "SHA-1" };
const LEAST_ROUNDS = 4096, MOST_ROUNDS = 1e6; // fewer would help who guesses passwords, more would take a second and longer

const base64 = octets => btoa(String.fromCharCode(...octets));
const unbase64 = text => Uint8Array.from(atob(text), character => character.charCodeAt(0));

// A name or password as RFC 4013 prepares it: every space is U+0020, what nobody sees goes, and one form of a letter is left.
const prepared = text => text.replace(/[\u00a0\u1680\u2000-\u200b\u202f\u205f\u3000]/g, " ")
  .replace(/[\u00ad\u034f\u1806\u180b-\u180d\u200c\u200d\u2060\ufe00-\ufe0f\ufeff]/g, "").normalize("NFKC");

class Scram {
  // Web Crypto, which browsers have by HTTPS and on localhost, calculates; `nonce` is random, but in tests.
  constructor(mechanism, { user, password }, nonce = base64(crypto.getRandomValues(new Uint8Array(18)))) {
    const name = user.replaceAll("=", "=3D").replaceAll(",", "=2C");
    Object.assign(this, { hash: SCRAMS[mechanism], password, nonce, bare: `n=${name},r=${nonce}`,
      proof: "", proven: false }); // the proof that is expected of the router
  }
  get first() { return octetsOf(`n,,${this.bare}`); }

  // Return the response to a challenge. Throws Error for what no router says that knows the password.
  async response(challenge) {
    const text = textOf(challenge);
    if (this.proof) {
      this.check(text);
      return new Uint8Array();
    }
    const [, nonce, salt, rounds] = text.match(/^r=([^,]+),s=([A-Za-z0-9+/=]+),i=(\d{1,9})(?:,|$)/) ?? [];
    if (!nonce?.startsWith(this.nonce) || nonce === this.nonce) throw new Error("the router's challenge is no answer to this login");
    if (rounds < LEAST_ROUNDS || rounds > MOST_ROUNDS) throw new Error(`the router asks for ${rounds} iterations of SCRAM`);
    const bare = `c=biws,r=${nonce}`, signed = octetsOf(`${this.bare},${text},${bare}`);
    const salted = await this.salted(unbase64(salt), Number(rounds));
    const key = await this.keyed(salted, octetsOf("Client Key"));
    const signature = await this.keyed(new Uint8Array(await crypto.subtle.digest(this.hash, key)), signed);
    this.proof = base64(await this.keyed(await this.keyed(salted, octetsOf("Server Key")), signed));
    return octetsOf(`${bare},p=${base64(key.map((octet, i) => octet ^ signature[i]))}`);
  }
  check(text) {
    if (!this.proof || text.split(",")[0] !== `v=${this.proof}`) throw new Error("the router does not prove that it knows the password");
    this.proven = true;
  }
  async salted(salt, iterations) {
    const key = await crypto.subtle.importKey("raw", octetsOf(this.password), "PBKDF2", false, ["deriveBits"]);
    const bits = { "SHA-1": 160 }[this.hash] ?? Number(this.hash.slice(4));
    return new Uint8Array(await crypto.subtle.deriveBits({ name: "PBKDF2", hash: this.hash, salt, iterations }, key, bits));
  }
  async keyed(secret, octets) {
    const key = await crypto.subtle.importKey("raw", secret, { name: "HMAC", hash: this.hash }, false, ["sign"]);
    return new Uint8Array(await crypto.subtle.sign("HMAC", key, octets));
  }
}
