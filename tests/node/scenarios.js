// The scenarios of tests/real/clients for amqplib: `node scenarios.js NAME PORT [SECONDS]`.
//
// Exits with 0 where the scenario went as it should. A scenario that needs the broker's knobs writes `block` or
// `unblock` on a line of its own to stdout, and goes on when a line comes back on stdin.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import amqp from 'amqplib';
import defs from './node_modules/amqplib/lib/defs.js';

const BIG = 10_000_000;
const CHANNELS = 200;
const MESSAGES = 100;

const [name, port, seconds] = process.argv.slice(2);

function connect({ vhost = '/', password = 'guest', heartbeat = 0, ...socketOptions } = {}) {
  const where = { protocol: 'amqp', hostname: '127.0.0.1', port: Number(port), username: 'guest', password, vhost };
  return amqp.connect({ ...where, heartbeat, channelMax: 2047 }, { noDelay: true, ...socketOptions });
}

async function withConnection(work, options) {
  const connection = await connect(options);
  await work(connection);
  await connection.close();
}

const withChannel = (work) =>
  withConnection(async (connection) => work(await connection.createChannel(), connection));

const withConfirms = (work) =>
  withConnection(async (connection) => work(await connection.createConfirmChannel(), connection));

const queue = async (channel, options = {}) => (await channel.assertQueue('', { exclusive: true, ...options })).queue;

const isEmpty = async (channel, where) => (await channel.get(where)) === false;

const digest = (octets) => createHash('sha256').update(octets).digest('hex');

const answers = createInterface({ input: process.stdin })[Symbol.asyncIterator]();

async function tell(what) {
  process.stdout.write(`${what}\n`);
  await answers.next();
}

const scenarios = {
  publish_consume: () =>
    withChannel(async (channel) => {
      const where = await queue(channel);
      await channel.prefetch(10);
      const received = [];
      const done = new Promise((resolve) => {
        channel.consume(where, (message) => {
          assert.equal(message.properties.correlationId, String(received.length));
          received.push(message.content.toString());
          channel.ack(message, received.length % 3 === 0);
          if (received.length === MESSAGES) resolve();
        });
      });
      const sent = Array.from({ length: MESSAGES }, (_, number) => `message ${number}`);
      for (const [number, text] of sent.entries()) {
        channel.sendToQueue(where, Buffer.from(text), {
          contentType: 'text/plain',
          contentEncoding: 'utf-8',
          deliveryMode: 1 + (number % 2),
          priority: number % 10,
          correlationId: String(number),
          replyTo: where,
          expiration: '600000',
          messageId: `id-${number}`,
          timestamp: 1700000000 + number,
          type: 'kind',
          userId: 'guest',
          appId: 'tests',
        });
      }
      await done;
      assert.deepEqual(received, sent);
    }),

  confirms: () =>
    withConfirms(async (channel) => {
      const where = await queue(channel, { maxLength: 5, arguments: { 'x-overflow': 'reject-publish' } });
      for (let number = 0; number < 5; number += 1) channel.sendToQueue(where, Buffer.from('fits'));
      await channel.waitForConfirms();
      await assert.rejects(
        new Promise((resolve, reject) => {
          channel.sendToQueue(where, Buffer.from('one too many'), {}, (error) => (error ? reject(error) : resolve()));
        }),
      );
      const returned = once(channel, 'return');
      channel.sendToQueue('nowhere', Buffer.from('lost'), { mandatory: true });
      await channel.waitForConfirms();
      const [message] = await returned;
      assert.equal(message.fields.replyCode, 312);
    }),

  nack: () =>
    withConfirms(async (channel) => {
      const where = await queue(channel);
      channel.sendToQueue(where, Buffer.from('again'));
      await channel.waitForConfirms();
      let message = await channel.get(where);
      assert.equal(message.fields.redelivered, false);
      channel.nack(message, false, true);
      message = await channel.get(where);
      assert.equal(message.fields.redelivered, true);
      await channel.recover();
      message = await channel.get(where);
      channel.reject(message, false);
      assert.ok(await isEmpty(channel, where));
    }),

  // amqplib has no call for transactions, but knows the methods.
  tx: () =>
    withChannel(async (channel) => {
      const where = await queue(channel);
      await channel.rpc(defs.TxSelect, {}, defs.TxSelectOk);
      channel.sendToQueue(where, Buffer.from('undone'));
      await channel.rpc(defs.TxRollback, {}, defs.TxRollbackOk);
      channel.sendToQueue(where, Buffer.from('done'));
      assert.ok(await isEmpty(channel, where));
      await channel.rpc(defs.TxCommit, {}, defs.TxCommitOk);
      const message = await channel.get(where, { noAck: true });
      assert.equal(message.content.toString(), 'done');
    }),

  returns: () =>
    withChannel(async (channel) => {
      const returned = once(channel, 'return');
      channel.publish('amq.direct', 'nowhere', Buffer.from('back to you'), { mandatory: true });
      const [message] = await returned;
      assert.equal(message.fields.replyCode, 312);
      assert.equal(message.content.toString(), 'back to you');
    }),

  big_bodies: () =>
    withChannel(async (channel) => {
      const where = await queue(channel);
      const body = randomBytes(BIG);
      const received = new Promise((resolve) => {
        channel.consume(where, resolve, { noAck: true });
      });
      channel.sendToQueue(where, body);
      const { content } = await received;
      assert.equal(digest(content), digest(body));
    }),

  many_channels: () =>
    withConnection(async (connection) => {
      const numbers = Array.from({ length: CHANNELS }, (_, number) => number);
      const channels = await Promise.all(numbers.map(() => connection.createConfirmChannel()));
      const names = await Promise.all(channels.map((channel) => queue(channel)));
      await Promise.all(
        channels.map((channel, number) => {
          const neighbour = names[(number + 1) % CHANNELS];
          channel.sendToQueue(neighbour, Buffer.from(neighbour));
          return channel.waitForConfirms();
        }),
      );
      const messages = await Promise.all(channels.map((channel, number) => channel.get(names[number])));
      assert.deepEqual(messages.map((message) => message.content.toString()), names);
      await Promise.all(channels.map((channel) => channel.close()));
    }),

  queues: () =>
    withChannel((owner) =>
      withChannel(async (stranger) => {
        const where = await queue(owner);
        assert.match(where, /^amq\.gen-/);
        const failed = once(stranger, 'error');
        await assert.rejects(stranger.checkQueue(where), { code: 405 });
        await failed;
        await owner.assertExchange('tests.amqplib', 'topic', { autoDelete: true });
        await owner.bindQueue(where, 'tests.amqplib', 'a.*.c', { why: 'a test' });
        owner.publish('tests.amqplib', 'a.b.c', Buffer.from('routed'));
        const message = await owner.get(where, { noAck: true });
        assert.equal(message.content.toString(), 'routed');
        await owner.purgeQueue(where);
        await owner.unbindQueue(where, 'tests.amqplib', 'a.*.c', { why: 'a test' });
        await owner.deleteQueue(where);
      }),
    ),

  idle: () =>
    withConnection(
      async (connection) => {
        await new Promise((resolve) => {
          setTimeout(resolve, Number(seconds) * 1000);
        });
        assert.ok(await queue(await connection.createChannel()));
      },
      { heartbeat: 2 },
    ),

  blocked: () =>
    withChannel(async (channel, connection) => {
      const notices = [];
      connection.on('blocked', (reason) => notices.push(reason));
      connection.on('unblocked', () => notices.push('unblocked'));
      const blocked = once(connection, 'blocked');
      const unblocked = once(connection, 'unblocked'); // it may come in the same read as what precedes it
      await tell('block');
      // The alarm takes a moment to reach the connection, which is notified when it publishes.
      while (notices.length < 1) {
        channel.sendToQueue('nowhere', Buffer.from('this blocks us'));
        await Promise.race([blocked, new Promise((resolve) => setTimeout(resolve, 100))]);
      }
      await tell('unblock');
      await unblocked;
      assert.deepEqual(notices, ['low on memory', 'unblocked']);
      assert.ok(await queue(channel));
    }),

  named_queues: () =>
    withChannel(async (channel) => {
      const where = `amqplib.${randomBytes(8).toString('hex')}`;
      for (const options of [{}, { durable: false }, { durable: false, maxPriority: 5 }]) {
        await channel.assertQueue(where, options);
        await channel.checkQueue(where);
        await channel.prefetch(1, true);
        const received = new Promise((resolve) => {
          channel.consume(where, (message) => {
            channel.ack(message);
            resolve(message.content.toString());
          }, { consumerTag: 'me' });
        });
        channel.sendToQueue(where, Buffer.from('one'), { persistent: true, priority: 3 });
        assert.equal(await received, 'one');
        await channel.cancel('me');
      }
      await channel.deleteQueue(where);
      assert.ok(await queue(channel));
      assert.ok((await channel.assertQueue(where, { autoDelete: true, durable: false })).queue);
      await channel.deleteQueue(where);
    }),

  field_tables: () =>
    withChannel(async (channel) => {
      const headers = {
        bool: true,
        byte: { '!': 'int8', value: -1 },
        unsignedByte: { '!': 'uint8', value: 255 },
        short: { '!': 'int16', value: -1 },
        unsignedShort: { '!': 'uint16', value: 65535 },
        int: { '!': 'int32', value: -1 },
        unsignedInt: { '!': 'uint32', value: 4294967295 },
        long: { '!': 'int64', value: -1 },
        float: { '!': 'float', value: 0.5 },
        double: { '!': 'double', value: 0.1 },
        decimal: { '!': 'decimal', value: { places: 2, digits: 314 } },
        text: 'ünïcödé',
        octets: Buffer.from([0, 255]),
        time: { '!': 'timestamp', value: 1700000000 },
        nothing: null,
        list: [1, 'two', { three: [3] }],
        table: { nested: { deeper: true } },
      };
      const where = await queue(channel, { arguments: headers });
      channel.sendToQueue(where, Buffer.alloc(0), { headers });
      const { properties } = await channel.get(where, { noAck: true });
      const plain = (value) => (value !== null && typeof value === 'object' && '!' in value ? value.value : value);
      for (const [key, sent] of Object.entries(headers)) {
        assert.deepEqual(plain(properties.headers[key]), plain(sent), key);
      }
    }),

  channel_error: () =>
    withConnection(async (connection) => {
      for (let round = 0; round < 3; round += 1) {
        const channel = await connection.createChannel();
        const failed = once(channel, 'error');
        await assert.rejects(channel.checkQueue('there is no such queue'), { code: 404 });
        await failed;
      }
      assert.ok(await queue(await connection.createChannel()));
    }),

  connection_error: async () => {
    await assert.rejects(connect({ vhost: 'nowhere' }), /ConnectionClose/);
    await assert.rejects(connect({ password: 'wrong' }), /403|ACCESS.REFUSED/);
  },
};

await scenarios[name]();
process.stdin.destroy();
