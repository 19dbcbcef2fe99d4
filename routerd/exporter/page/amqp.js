// ---- AMQP 1.0, as much as requests to a management agent need (parts 1, 2, 3 and 5 of the standard) ----

const OPEN = 0x10, BEGIN = 0x11, ATTACH = 0x12, FLOW = 0x13, TRANSFER = 0x14, DISPOSITION = 0x15, DETACH = 0x16,
  CLOSE = 0x18, ERROR = 0x1d, ACCEPTED = 0x24, SOURCE = 0x28, TARGET = 0x29,
  MECHANISMS = 0x40, INIT = 0x41, CHALLENGE = 0x42, RESPONSE = 0x43, OUTCOME = 0x44, ANNOTATIONS = 0x72, PROPERTIES = 0x73, APPLICATION = 0x74, VALUE = 0x77;
const FRAME_BYTES = 65536, MESSAGE_BYTES = 4 << 20, DEEPEST = 32, REPLIES = 16, SECONDS = 10,
  PAYLOAD_BYTES = 400; // with its head within 512 octets, which each peer takes

const UTF8 = new TextDecoder("utf-8", { ignoreBOM: true }); // what is no UTF-8 becomes U+FFFD
const textOf = octets => UTF8.decode(octets), octetsOf = text => new TextEncoder().encode(text);

// Values that are no plain JavaScript: an encoded type, a symbol, a described list or value.
class Typed { constructor(...octets) { this.octets = octets; } }
const uint = n => new Typed(0x70, ...be(n, 4)), ubyte = n => new Typed(0x50, n), ushort = n => new Typed(0x60, ...be(n, 2));
class Symbolic { constructor(text) { this.text = text; } toString() { return this.text; } }
const symbol = text => new Symbolic(text);
class Described { constructor(code, value) { Object.assign(this, { code, value }); } }

function be(n, size) {
  return Array.from({ length: size }, (_, i) => Math.floor(n / 2 ** (8 * (size - 1 - i))) & 255);
}
function joined(parts) {
  const whole = new Uint8Array(parts.reduce((n, part) => n + part.length, 0));
  parts.reduce((at, part) => (whole.set(part, at), at + part.length), 0);
  return whole;
}
function encoded(value) {
  if (value == null) return [0x40];
  if (value === true || value === false) return [value ? 0x41 : 0x42];
  if (value instanceof Typed) return value.octets;
  if (value instanceof Described) return joined([[0, 0x53, value.code], encoded(value.value)]);
  if (value instanceof Uint8Array) return joined([[0xb0, ...be(value.length, 4)], value]);
  if (typeof value === "number") return Math.abs(value) < 2 ** 31 ? [0x71, ...be(value >>> 0, 4)]
    : [0x81, ...new Uint8Array(new BigInt64Array([BigInt(value)]).buffer).reverse()];
  if (typeof value === "string" || value instanceof Symbolic) {
    const octets = octetsOf(String(value));
    return joined([[typeof value === "string" ? 0xb1 : 0xb3, ...be(octets.length, 4)], octets]);
  }
  const items = value instanceof Map ? [...value].flat() : Array.isArray(value) ? value : Object.entries(value).flat();
  const body = joined(items.map(encoded));
  return joined([[Array.isArray(value) ? 0xd0 : 0xd1, ...be(body.length + 4, 4), ...be(items.length, 4)], body]);
}

// Reads values from octets of a peer. It throws RangeError for what is cut off, too deep or of an unknown type.
class Reader {
  constructor(octets) { Object.assign(this, { octets, at: 0, deep: 0, view: new DataView(octets.buffer, octets.byteOffset, octets.length) }); }
  get more() { return this.at < this.octets.length; }
  bytes(size) {
    if (size > this.octets.length - this.at) throw new RangeError("a value is cut off");
    return this.octets.subarray(this.at, this.at += size);
  }
  number(size) { return this.bytes(size).reduce((n, octet) => n * 256 + octet, 0); }
  value(code = this.number(1)) {
    if (++this.deep > DEEPEST) throw new RangeError("values are nested too deeply");
    try { return this.inner(code); } finally { this.deep--; }
  }
  inner(code) {
    switch (code) {
      case 0x00: { const described = this.value(); return new Described(described, this.value()); }
      case 0x40: return null;
      case 0x41: return true;
      case 0x42: return false;
      case 0x43: case 0x44: return 0;
      case 0x45: return [];
      case 0x56: return this.number(1) === 1;
      case 0x51: case 0x54: case 0x55: this.bytes(1); return this.view.getInt8(this.at - 1);
      case 0x61: this.bytes(2); return this.view.getInt16(this.at - 2);
      case 0x71: this.bytes(4); return this.view.getInt32(this.at - 4);
      case 0x81: case 0x83: this.bytes(8); return Number(this.view.getBigInt64(this.at - 8));
      case 0x72: this.bytes(4); return this.view.getFloat32(this.at - 4);
      case 0x82: this.bytes(8); return this.view.getFloat64(this.at - 8);
      case 0x50: case 0x52: case 0x53: return this.number(1);
      case 0x60: return this.number(2);
      case 0x70: case 0x73: return this.number(4);
      case 0x80: return this.number(8);
      case 0x98: return [...this.bytes(16)].map(octet => octet.toString(16).padStart(2, "0")).join("");
      case 0xa0: case 0xb0: return this.bytes(this.number(code < 0xb0 ? 1 : 4));
      case 0xa1: case 0xa3: case 0xb1: case 0xb3: return textOf(this.bytes(this.number(code < 0xb0 ? 1 : 4)));
      case 0xc0: case 0xd0: case 0xc1: case 0xd1: return this.compound(code & 1, code < 0xd0 ? 1 : 4);
      case 0xe0: case 0xf0: return this.array(code < 0xf0 ? 1 : 4);
      default: throw new RangeError("a value has an unknown type");
    }
  }
  compound(isMap, size) {
    const length = this.number(size), inner = new Reader(this.bytes(length)), most = inner.number(size), items = [];
    inner.deep = this.deep;
    while (items.length < most) items.push(inner.value());
    return isMap ? new Map(items.flatMap((item, i) => i % 2 ? [] : [[item, items[i + 1]]])) : items;
  }
  array(size) {
    const length = this.number(size), inner = new Reader(this.bytes(length)), most = inner.number(size), code = inner.number(1);
    inner.deep = this.deep;
    if (most > inner.octets.length) throw new RangeError("an array is cut off");
    return Array.from({ length: most }, () => inner.value(code));
  }
}

const refusal = error => error instanceof Described ? `${error.value[0]}: ${error.value[1] || "no reason"}` : "no reason";

const REFUSED = "the router does not accept this user and password";
const NO_WEBSOCKETS = "this listener has websockets: no, and the console asks by WebSocket: set websockets: yes there and reload the "
  + "configuration, or ask with routerd stat on the router's machine";
const NO_CONNECTION = "no AMQP connection: the router is gone or has no room for another one, or a proxy between does not pass WebSockets on";

// A connection by WebSocket: one session, one receiver with a dynamic address, a sender for each address that is asked.
class Peer {
  static offered = null; // SASL mechanisms that the listener has offered last
  static get takesPasswords() { return [...Object.keys(SCRAMS), "PLAIN"].some(name => Peer.offered?.includes(name)); }
  // A name and password are sent as typed, for Cyrus SASL compares octets; then as RFC 4013 prepares them, if they change.
  static async open(url, login) {
    try {
      return await Peer.attempt(url, login);
    } catch (error) {
      const other = login && { user: prepared(login.user), password: prepared(login.password) };
      if (error.message !== REFUSED || (other.user === login.user && other.password === login.password)) throw error;
      return Peer.attempt(url, other);
    }
  }
  static async attempt(url, login) {
    const peer = new Peer(url, login);
    try {
      await peer.ready;
    } catch (error) {
      peer.close();
      throw error;
    }
    return peer;
  }
  constructor(url, login) {
    Object.assign(this, { login, rest: new Uint8Array(), senders: new Map(), waiting: new Map(), parts: [], size: 0,
      expected: 0, received: 0, transfers: 0, deliveries: 0, handles: 0, scram: null, address: "", container: "", closed: "", began: false });
    this.ready = new Promise((done, failed) => Object.assign(this, { done, failed }));
    this.ready.catch(() => {});
    this.timer = setTimeout(() => this.end("the router does not answer"), SECONDS * 1000);
    this.socket = new WebSocket(url, "amqp");
    this.socket.binaryType = "arraybuffer";
    this.socket.onopen = () => this.header(3);
    this.socket.onmessage = event => this.take(new Uint8Array(event.data));
    this.socket.onclose = () => this.end(this.began ? "the router closed the connection"
      : shown?.webSockets === false ? NO_WEBSOCKETS : NO_CONNECTION);
  }
  close() {
    if (!this.closed && this.address) this.frame(new Described(CLOSE, []));
    this.end("closed");
  }
  end(why) {
    if (this.closed) return;
    this.closed = why;
    clearTimeout(this.timer);
    clearInterval(this.alive);
    this.socket.close();
    this.failed(new Error(why));
    for (const { failed } of this.waiting.values()) failed(new Error(why));
    this.waiting.clear();
  }
  header(kind) { this.socket.send(new Uint8Array([65, 77, 81, 80, kind, 1, 0, 0])); }
  frame(performative, kind = 0, payload = []) {
    if (this.socket.readyState !== WebSocket.OPEN) return;
    const body = performative ? encoded(performative) : [];
    this.socket.send(joined([be(8 + body.length + payload.length, 4), [2, kind, 0, 0], body, payload]));
  }

  // -- what comes --

  take(octets) {
    try {
      this.rest = this.rest.length ? joined([this.rest, octets]) : octets;
      while (!this.closed && this.rest.length >= 8) {
        if (this.rest[0] === 65) { // "AMQP": a protocol header
          if (!this.began && this.rest[4] !== 3) throw new RangeError("the router wants no SASL");
          this.rest = this.rest.subarray(8);
          continue;
        }
        const size = new Reader(this.rest).number(4);
        if (size < 8 || size > FRAME_BYTES) throw new RangeError("a frame is too long");
        if (size > this.rest.length) return;
        const frame = new Reader(this.rest.subarray(this.rest[4] * 4, size));
        this.rest = this.rest.subarray(size);
        if (frame.more) this.heard(frame.value(), frame);
      }
    } catch (error) {
      this.end(`what the router says cannot be read: ${error.message}`);
    }
  }
  heard({ code, value }, frame) {
    switch (code) {
      case MECHANISMS: return this.authenticate([value[0]].flat());
      case CHALLENGE: return this.challenged(value[0]);
      case OUTCOME:
        if (value[0] !== 0) return this.end(REFUSED);
        if (this.scram && !this.believed(value[1])) return;
        this.began = true;
        this.header(0);
        this.frame(new Described(OPEN, [this.container = "console-" + crypto.getRandomValues(new Uint32Array(2)).join(""),
          location.hostname, uint(FRAME_BYTES), ushort(0), uint(60000)]));
        this.frame(new Described(BEGIN, [null, uint(0), uint(2048), uint(2048)]));
        return this.frame(new Described(ATTACH, ["replies", uint(0), true, ubyte(2), ubyte(0),
          new Described(SOURCE, [null, uint(0), null, uint(0), true]), new Described(TARGET, [])]));
      case OPEN:
        if (value[4]) this.alive = setInterval(() => this.frame(null), value[4] / 3);
        return;
      case BEGIN: this.expected = value[1]; return;
      case ATTACH: return this.attached(value);
      case FLOW: return this.flow(value);
      case TRANSFER: return this.transfer(value, frame);
      case DISPOSITION: return this.settled(value);
      case DETACH: return this.detached(value);
      case CLOSE: return this.end(`the router closed the connection: ${refusal(value[0])}`);
    }
  }
  authenticate(offered) {
    Peer.offered = offered;
    const scram = Object.keys(SCRAMS).find(name => offered.includes(name));
    if (this.login && scram) this.scram = new Scram(scram, this.login);
    const wanted = !this.login ? "ANONYMOUS" : scram ?? "PLAIN";
    if (!offered.includes(wanted)) return this.end(!this.login && Peer.takesPasswords ? "log in first" : "this listener takes no passwords (SCRAM "
      + `or PLAIN)${this.login ? "" : " and no strangers (ANONYMOUS), and a page has no other login: open the page of another listener"}`);
    const proof = this.scram ? this.scram.first : this.login ? octetsOf(`\0${this.login.user}\0${this.login.password}`) : octetsOf("console");
    this.frame(new Described(INIT, [symbol(wanted), proof, location.hostname]), 1);
  }
  challenged(octets) {
    if (!this.scram) throw new RangeError("a challenge to nobody");
    this.scram.response(octets).then(response => this.frame(new Described(RESPONSE, [response]), 1), error => this.end(error.message));
  }
  // Whether the router knows the password: the proof has come as a challenge, or comes with the outcome.
  believed(octets) {
    try {
      if (!this.scram.proven) this.scram.check(textOf(octets ?? new Uint8Array()));
    } catch (error) {
      this.end(error.message);
    }
    return this.scram.proven;
  }
  attached([name, handle, , , , source]) {
    if (name === "replies") {
      if (!source || !source.value[0]) return; // a DETACH follows that says why
      this.address = source.value[0];
      this.credit();
      clearTimeout(this.timer);
      this.done();
    } else {
      for (const sender of this.senders.values()) if (sender.name === name) sender.remote = handle;
    }
  }
  credit() {
    this.frame(new Described(FLOW, [uint(this.expected), uint(2048), uint(this.transfers), uint(2048), uint(0), uint(this.received), uint(REPLIES)]));
  }
  flow([, , , , handle, count, credit]) {
    for (const sender of this.senders.values()) {
      if (sender.remote !== handle) continue;
      sender.credit = (count ?? 0) + credit - sender.sent;
      while (sender.credit > 0 && sender.queue.length) this.push(sender, sender.queue.shift());
    }
  }
  transfer([, id, , , settled, more, , , , aborted], frame) {
    this.expected++;
    const part = frame.octets.slice(frame.at);
    this.size += part.length;
    if (this.size > MESSAGE_BYTES) throw new RangeError("an answer is too long");
    this.parts.push(part);
    this.id = id ?? this.id;
    if (more && !aborted) {
      if (this.expected % 1024 === 0) this.credit();
      return;
    }
    const message = joined(this.parts);
    Object.assign(this, { parts: [], size: 0 });
    this.received++;
    if (!settled && !aborted) this.frame(new Described(DISPOSITION, [true, uint(this.id), null, true, new Described(ACCEPTED, [])]));
    this.credit();
    if (!aborted) this.answered(message);
  }
  answered(octets) {
    const reader = new Reader(octets), sections = {};
    while (reader.more) {
      const { code, value } = reader.value();
      sections[code] = value;
    }
    const asked = sections[PROPERTIES]?.[5] ?? "trace"; // route workers answer nothing: it is the message itself that comes back
    this.waiting.get(asked)?.done(sections);
    this.waiting.delete(asked);
  }
  settled([role, first, last, , state]) {
    if (!role || !(state instanceof Described) || state.code === ACCEPTED) return;
    for (const [key, one] of this.waiting) {
      if (one.id < first || one.id > (last ?? first)) continue;
      const why = state.code === 0x25 ? refusal(state.value[0]) : "nobody takes messages there";
      one.failed(new Error(why));
      this.waiting.delete(key);
    }
  }
  detached([handle, , error]) {
    const why = refusal(error);
    for (const [address, sender] of this.senders) {
      if (sender.remote !== handle) continue;
      this.senders.delete(address);
      this.frame(new Described(DETACH, [uint(sender.handle), true]));
      for (const [key, one] of this.waiting) {
        if (one.address !== address) continue;
        one.failed(new Error(why));
        this.waiting.delete(key);
      }
      return;
    }
    this.end(`the router refuses the console: ${why}`);
  }

  // -- what is asked --

  // Send a message to an address, or to none (null: by its route), and return the sections of the answer.
  send(address, sections, key) {
    if (this.closed) return Promise.reject(new Error(this.closed));
    let sender = this.senders.get(address);
    if (!sender) {
      const handle = ++this.handles;
      sender = { handle, name: `ask-${handle}`, remote: -1, credit: 0, sent: 0, queue: [] };
      this.senders.set(address, sender);
      this.frame(new Described(ATTACH, [sender.name, uint(handle), false, ubyte(2), ubyte(0),
        new Described(SOURCE, []), new Described(TARGET, [address]), null, null, uint(0)]));
    }
    return new Promise((done, failed) => {
      const late = setTimeout(() => {
        this.waiting.delete(key);
        sender.queue = sender.queue.filter(other => other !== one); // credit that comes later is not for it
        failed(new Error("the router does not answer"));
      }, SECONDS * 1000);
      const once = act => value => { clearTimeout(late); act(value); };
      const one = { address, done: once(done), failed: once(failed), id: -1, octets: joined(sections.map(encoded)) };
      this.waiting.set(key, one);
      if (sender.credit > 0) this.push(sender, one); else sender.queue.push(one);
    });
  }
  push(sender, one) {
    one.id = this.deliveries++;
    sender.sent++;
    sender.credit--;
    for (let at = 0; at < one.octets.length; at += PAYLOAD_BYTES) {
      this.transfers++;
      this.frame(new Described(TRANSFER, [uint(sender.handle), uint(one.id), Uint8Array.from(be(one.id, 4)), uint(0), false,
        at + PAYLOAD_BYTES < one.octets.length]), 0, one.octets.subarray(at, at + PAYLOAD_BYTES));
    }
  }
}
