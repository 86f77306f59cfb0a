/** A first client in four languages, for when nothing passes yet. */
export interface Snippet {
  name: string
  text: (url: string) => string
}

export const SNIPPETS: readonly Snippet[] = [
  {
    name: 'pika (Python)',
    text: (url) => `import pika

connection = pika.BlockingConnection(pika.URLParameters("${url}"))
channel = connection.channel()
channel.queue_declare("hello", durable=True)
channel.basic_publish("", "hello", b"Hello")
print(channel.basic_get("hello", auto_ack=True))
connection.close()
`,
  },
  {
    name: 'amqplib (Node.js)',
    text: (url) => `import amqp from 'amqplib'

const connection = await amqp.connect('${url}')
const channel = await connection.createChannel()
await channel.assertQueue('hello')
channel.sendToQueue('hello', Buffer.from('Hello'))
await channel.close()
await connection.close()
`,
  },
  {
    name: 'Java',
    text: (url) => `import com.rabbitmq.client.ConnectionFactory;

public class Hello {
    public static void main(String[] arguments) throws Exception {
        var factory = new ConnectionFactory();
        factory.setUri("${url}");
        try (var connection = factory.newConnection(); var channel = connection.createChannel()) {
            channel.queueDeclare("hello", true, false, false, null);
            channel.basicPublish("", "hello", null, "Hello".getBytes());
        }
    }
}
`,
  },
  {
    name: 'Go',
    text: (url) => `package main

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"
)

func main() {
	connection, err := amqp.Dial("${url}")
	if err != nil {
		panic(err)
	}
	defer connection.Close()
	channel, err := connection.Channel()
	if err != nil {
		panic(err)
	}
	if _, err = channel.QueueDeclare("hello", true, false, false, false, nil); err != nil {
		panic(err)
	}
	message := amqp.Publishing{Body: []byte("Hello")}
	if err = channel.PublishWithContext(context.Background(), "", "hello", false, false, message); err != nil {
		panic(err)
	}
}
`,
  },
]
