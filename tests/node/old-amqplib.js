// amqplib 0.8, which answers connection.tune with a frame_max of 4096: `node old-amqplib.js PORT`.
//
// Publishes a body of many frames to a queue, consumes it, and writes its size.

import assert from 'node:assert/strict';
import amqp from 'amqplib-0.8';

const BODY = Buffer.alloc(100_000, 'x');

const connection = await amqp.connect(`amqp://guest:guest@127.0.0.1:${process.argv[2]}`);
const channel = await connection.createConfirmChannel();
const { queue } = await channel.assertQueue('', { durable: false, autoDelete: true });
channel.sendToQueue(queue, BODY);
await channel.waitForConfirms();
const message = await new Promise((resolve) => {
  channel.consume(queue, resolve);
});
channel.ack(message);
assert(message.content.equals(BODY));
await connection.close();
process.stdout.write(`${message.content.length}\n`);
