/* Scenarios for a client with another engine: node rhea_client.js HOST PORT SCENARIO ADDRESS [URL of a WebSocket]
 *
 * Each ends by writing one line of JSON with what it saw; the tests judge it.
 */
'use strict';

const rhea = require('rhea');

const [host, port, scenario, address, url] = process.argv.slice(2);
const container = rhea.create_container({ id: `rhea-${scenario}` });
const seen = {};

/* rhea tries again after a loss by default; a test must not. */
function connect() {
    if (url) {
        const over = rhea.websocket_connect(require('ws'));
        return container.connect({ connection_details: over(url, ['amqp'], { rejectUnauthorized: false }), reconnect: false });
    }
    return container.connect({ host, port: Number(port), reconnect: false });
}

function finish(...connections) {
    let open = connections.length;
    connections.forEach((connection) => {
        connection.on('connection_close', () => { if (--open === 0) console.log(JSON.stringify(seen)); });
        connection.close();
    });
}

function fail(why) {
    console.error(why);
    process.exit(1);
}

container.on('disconnected', (context) => { if (context.error) fail(`lost: ${context.error}`); });
container.on('connection_error', (context) => fail(`connection: ${context.connection.error}`));

const scenarios = {
    /* 500 messages, more than the credit, each accepted, in order */
    exchange() {
        const sending = connect(), receiving = connect();
        const total = 500;
        let sent = 0;
        seen.bodies = [];
        seen.accepted = 0;
        receiving.open_receiver({ source: address, credit_window: 20 });
        const sender = sending.open_sender(address);
        container.on('sendable', () => {
            while (sender.sendable() && sent < total) sender.send({ message_id: sent, body: { sequence: sent++ } });
        });
        container.on('message', (context) => seen.bodies.push(context.message.body.sequence));
        container.on('accepted', () => { if (++seen.accepted === total) finish(sending, receiving); });
    },

    /* a service and its client: dynamic reply address, anonymous sender for the replies */
    reply() {
        const service = connect(), client = connect();
        const questions = ['one', 'two', 'three'];
        seen.answers = [];
        const requests = service.open_receiver(address);
        const relay = service.open_sender({ target: {} });
        const replies = client.open_receiver({ source: { dynamic: true } });
        requests.on('message', (context) => relay.send({
            to: context.message.reply_to, correlation_id: context.message.correlation_id, body: context.message.body.toUpperCase(),
        }));
        replies.on('receiver_open', () => {
            seen.reply_to = replies.source.address;
            const sender = client.open_sender(address);
            sender.once('sendable', () => questions.forEach((body, i) => sender.send({ reply_to: seen.reply_to, correlation_id: i, body })));
        });
        replies.on('message', (context) => {
            seen.answers[context.message.correlation_id] = context.message.body;
            if (Object.keys(seen.answers).length === questions.length) finish(service, client);
        });
    },

    /* each outcome with all that belongs to it; one after the other, for rhea joins what it says of neighbours */
    outcomes() {
        const connection = connect();
        seen.outcomes = [];
        connection.open_receiver({ source: address, autoaccept: false });
        const sender = connection.open_sender(address);
        let settled = 0;
        sender.once('sendable', () => sender.send({ body: settled }));
        container.on('message', (context) => {
            const d = context.delivery;
            [() => d.accept(),
                () => d.reject({ condition: 'app:wrong', description: 'not this one' }),
                () => d.release(),
                () => d.modified({ delivery_failed: true, undeliverable_here: true, message_annotations: { key: 'value' } }),
                () => d.update(true)][context.message.body]();
        });
        const note = (name) => (context) => {
            const state = context.delivery.remote_state;
            const error = state.error && { condition: state.error.condition, description: state.error.description };
            const { delivery_failed: failed, undeliverable_here: undeliverable, message_annotations: annotations } = state;
            seen.outcomes.push({ name, error, failed, undeliverable, annotations });
        };
        ['accepted', 'rejected', 'released', 'modified'].forEach((name) => container.on(name, note(name)));
        container.on('settled', () => {
            if (++settled === 5) finish(connection);
            else sender.send({ body: settled });
        });
    },

    /* bodies of all kinds and sizes, and every header and property rhea knows */
    content() {
        const connection = connect();
        const bodies = [
            rhea.message.data_section(Buffer.from('bytes')), rhea.message.sequence_section(['a', 1, null]),
            null, true, 'größe', -5, { map: { deep: [1, 2] } }, 'x'.repeat(1000000),
        ];
        const message = (body, i) => ({
            durable: true, priority: 7, ttl: 1234, message_id: `id-${i}`, to: address, subject: 'subject', reply_to: 'reply',
            correlation_id: 'correlation', content_type: 'text/plain', group_id: 'group', group_sequence: 5, body,
            application_properties: { text: 'größe', number: 17 }, message_annotations: { 'x-opt-key': 'value' },
            delivery_annotations: { 'x-opt-delivery': 1 }, footer: { sum: 'abc' },
        });
        const shown = (m) => JSON.stringify(Object.entries(m).filter(([, v]) => v !== undefined).sort());
        const expected = bodies.map((body, i) => shown(rhea.message.decode(rhea.message.encode(message(body, i)))));
        seen.same = [];
        connection.open_receiver(address);
        const sender = connection.open_sender(address);
        sender.once('sendable', () => bodies.forEach((body, i) => sender.send(message(body, i))));
        container.on('message', (context) => seen.same.push(shown(context.message) === expected[seen.same.length]));
        let accepted = 0;
        container.on('accepted', () => { if (++accepted === bodies.length) finish(connection); });
    },

    /* presettled messages */
    presettled() {
        const connection = connect();
        seen.received = 0;
        connection.open_receiver(address);
        const sender = connection.open_sender({ target: address, snd_settle_mode: 1 });
        sender.once('sendable', () => { for (let i = 0; i < 100; i++) sender.send({ body: i }); });
        container.on('message', (context) => {
            seen.settled = context.delivery.remote_settled;
            if (++seen.received === 100) finish(connection);
        });
    },

    /* a receiver that gives credit by hand and takes back what is not used */
    drain() {
        const connection = connect();
        seen.bodies = [];
        const receiver = connection.open_receiver({ source: address, credit_window: 0 });
        const sender = connection.open_sender(address);
        receiver.on('receiver_drained', () => { seen.credit = receiver.credit; finish(connection); });
        receiver.on('message', (context) => seen.bodies.push(context.message.body));
        sender.once('sendable', () => {
            for (let i = 0; i < 3; i++) sender.send({ body: i });
            receiver.add_credit(2);
        });
        let accepted = 0;
        sender.on('accepted', () => {
            if (++accepted === 2) { receiver.drain_credit(); receiver.add_credit(10); }
        });
    },

    /* links that are refused */
    refused() {
        const connection = connect();
        seen.errors = [];
        const note = (context) => {
            seen.errors.push((context.sender || context.receiver).error.condition);
            if (seen.errors.length === 2) setImmediate(finish, connection); // rhea has to answer the detach first
        };
        container.on('sender_error', note);
        container.on('receiver_error', note);
        connection.open_sender(address);
        connection.open_receiver(address);
    },
};

scenarios[scenario]();
