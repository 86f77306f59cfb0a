// What programs do wrong with amqplib, and the same done right: `node mistakes.js NAME PORT`.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import amqp from 'amqplib';

const QUEUE = 'tests.mistakes';
const MESSAGES = 30;

const [name, port] = process.argv.slice(2);

const persistent = (channel) => channel.sendToQueue(QUEUE, Buffer.from('body'), { persistent: true });

const mistakes = {
  async get_polling(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(QUEUE);
    persistent(channel);
    await channel.waitForConfirms();
    for (let count = 0; count < MESSAGES; count += 1) {
      const message = await channel.get(QUEUE);
      if (message) channel.ack(message);
    }
  },

  async consume(connection) {
    const channel = await connection.createConfirmChannel();
    await channel.assertQueue(QUEUE);
    await channel.prefetch(5);
    let acked = 0;
    const done = new Promise((resolve) => {
      channel.consume(QUEUE, (message) => {
        channel.ack(message);
        acked += 1;
        if (acked === MESSAGES) resolve();
      });
    });
    for (let count = 0; count < MESSAGES; count += 1) persistent(channel);
    await channel.waitForConfirms();
    await done;
  },

  async declare_otherwise(connection) {
    const channel = await connection.createChannel();
    const failed = once(channel, 'error');
    await channel.assertQueue(QUEUE);
    await assert.rejects(channel.assertQueue(QUEUE, { durable: false }), { code: 406 });
    await failed;
  },

  async declare_alike(connection) {
    const channel = await connection.createChannel();
    await channel.assertQueue(QUEUE);
    await channel.assertQueue(QUEUE);
    await channel.close();
  },
};

const connection = await amqp.connect(`amqp://127.0.0.1:${port}`);
await mistakes[name](connection);
await connection.close();
