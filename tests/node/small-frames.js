// Headers above their frame_max to consumers: `node small-frames.js LIBRARY PORT PUBLISH_PORT FRAME_MAX`.
//
// RabbitMQ bounds only the bodies that it sends by frame_max. The messages are published with larger frames at the
// second port, and consumed with this frame_max at the first; each is acknowledged by hand. Writes how many came,
// and how many of them again.

import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { AMQPClient } from '@cloudamqp/amqp-client';
import amqp from 'amqplib';
import { Connection } from 'rabbitmq-client';

const MESSAGES = 3;
const QUIET = 500; // milliseconds after which nothing comes again

const [library, port, publishPort, frameMax] = process.argv.slice(2);
const FRAME_MAX = Number(frameMax);
const HEADERS = { stack: 'e'.repeat(FRAME_MAX + 1000) };
const url = (where) => `amqp://guest:guest@127.0.0.1:${where}`;
const queue = `small-frames.${randomBytes(8).toString('hex')}`;

const pause = () => new Promise((resolve) => setTimeout(resolve, QUIET));

class Arrivals {
  constructor() {
    this.count = this.redelivered = 0;
    this.all = new Promise((resolve, reject) => Object.assign(this, { resolve, reject }));
  }

  note(headers, body, redelivered) {
    try {
      assert.equal(String(body), 'body');
      assert.equal(headers.stack, HEADERS.stack);
    } catch (error) {
      this.reject(error);
    }
    this.count += 1;
    this.redelivered += redelivered ? 1 : 0;
    if (this.count >= MESSAGES) this.resolve();
  }
}

const consumers = {
  async '@cloudamqp/amqp-client'(arrivals) {
    const connection = await new AMQPClient(`${url(port)}?frameMax=${FRAME_MAX}`).connect();
    connection.onerror = arrivals.reject;
    const channel = await connection.channel();
    await channel.basicQos(1);
    await channel.basicConsume(queue, { noAck: false }, async (message) => {
      arrivals.note(message.properties.headers, message.bodyString(), message.redelivered);
      await message.ack();
    });
    assert.equal(connection.frameMax, FRAME_MAX);
    await arrivals.all;
    await pause();
    await connection.close();
  },

  async 'rabbitmq-client'(arrivals) {
    const connection = new Connection({ url: url(port), frameMax: FRAME_MAX });
    connection.on('error', arrivals.reject);
    const consumer = connection.createConsumer({ queue, qos: { prefetchCount: 1 } }, async (message) =>
      arrivals.note(message.headers, message.body, message.redelivered),
    );
    consumer.on('error', arrivals.reject);
    await arrivals.all;
    await pause();
    await consumer.close();
    await connection.close();
  },
};

const publisher = await amqp.connect(url(publishPort));
const channel = await publisher.createConfirmChannel();
await channel.assertQueue(queue, { durable: false });
for (let each = 0; each < MESSAGES; each += 1) {
  channel.sendToQueue(queue, Buffer.from('body'), { headers: HEADERS, contentType: 'text/plain' });
}
await channel.waitForConfirms();
const arrivals = new Arrivals();
await consumers[library](arrivals);
assert.equal((await channel.deleteQueue(queue)).messageCount, 0);
await publisher.close();
process.stdout.write(`${arrivals.count} ${arrivals.redelivered}\n`);
process.exit(0);
